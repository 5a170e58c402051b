"""A callback sees each evaluation once and in order, and may stop a study, which then goes on bit for bit."""

import contextlib
import signal
import sys
import threading

import numpy as np
import pytest
from small import Terminal

import mdfl_jax
from mdfl_jax import Interrupted, UserError

pytestmark = pytest.mark.long  # studies of several seconds

# Two batches, of five runs and of four: the second point has a seed in each of them. Four evaluations a batch.
STUDY = {
    "sweep": "network.mobility=static,random_movement,dcm",
    "seeds": 3,
    "engine.runs_per_batch": 5,
    "engine.record_positions": True,
    "rounds": 6,
    "algorithm.batch_size": 4,
}
RECORDS = {"links", "destination", "centre"}  # what the network records of each round
PARTS = [("static", [0, 1, 2]), ("random_movement", [0, 1])], [("random_movement", [2]), ("dcm", [0, 1, 2])]
CALLS = [(point, seeds, r) for parts in PARTS for r in (0, 2, 4, 6) for point, seeds in parts]


class OwnError(Exception):
    pass


class Watcher:
    """Records what it sees, and does something at its n-th call, counted from 1."""

    def __init__(self, at=0, do=lambda: None):
        self.at, self.do, self.seen = at, do, []

    def __call__(self, info):
        kept = info._replace(metrics={name: np.copy(values) for name, values in info.metrics.items()})
        self.seen.append(kept)
        for values in info.metrics.values():
            values[...] = 0  # the results must not notice
        return self.do() if len(self.seen) == self.at else None

    @property
    def calls(self):
        return [(info.point, info.seeds, info.round) for info in self.seen]


ERROR = OwnError("of the user")
ERROR.__cause__ = CAUSE = KeyError("why")


def fail():
    raise ERROR


@pytest.fixture(scope="module")
def reference(tiny, tmp_path_factory):
    """The study without a callback, run in a thread, where no signal can be heeded."""
    folder, found = tmp_path_factory.mktemp("reference") / "run", []
    handler = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: found.append(mdfl_jax.run(tiny(**STUDY), folder, progress=False)))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is handler
    return found[0]


@pytest.fixture(scope="module")
def watched(tiny, tmp_path_factory):
    watcher = Watcher()
    return mdfl_jax.run(tiny(**STUDY), tmp_path_factory.mktemp("watched") / "run", on_evaluation=watcher), watcher


def assert_same(results, reference):
    assert (results.workdir / "metrics.jsonl").read_bytes() == (reference.workdir / "metrics.jsonl").read_bytes()
    assert results.arrays.keys() == reference.arrays.keys()
    for name, values in reference.arrays.items():
        np.testing.assert_array_equal(results.arrays[name], values, err_msg=name)
    files = {path.name for path in reference.workdir.iterdir()}
    assert {path.name for path in results.workdir.iterdir()} == files


def test_each_evaluation_is_seen_once_and_in_order(watched, reference):
    results, watcher = watched
    assert watcher.calls == CALLS
    assert_same(results, reference)
    seconds = [info.seconds for info in watcher.seen]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0


def test_the_values_are_those_of_the_history(watched, reference):
    for info in watched[1].seen:
        p, s, e = reference.points.index(info.point), np.array(info.seeds), info.round // 2
        own = {name.partition("/")[2] for name in reference.arrays if name.startswith(f"{p}/")}
        unmeasured = set(info.metrics) - own - RECORDS
        assert unmeasured == {"validation_loss", "objective", "divergence_round", "divergence_norm"}  # none diverged
        assert own - set(info.metrics) - RECORDS == {"label_counts", "is_mobile", "reached"}
        assert set(info.metrics) & RECORDS == (RECORDS if e else set())  # no round before the first evaluation
        for name, values in info.metrics.items():
            if name in unmeasured:
                assert np.isnan(values).all()
                assert values.shape == (len(s),)
            elif name == "position":
                since = slice(0, 1) if e == 0 else slice(2 * e - 1, 2 * e + 1)
                np.testing.assert_array_equal(values, reference.array(name, p)[s, since])
            elif name in RECORDS:
                recorded = reference.arrays.get(f"{p}/{name}")
                expected = np.nan if recorded is None else recorded[s, 2 * e - 2 : 2 * e]
                np.testing.assert_array_equal(values, np.broadcast_to(expected, values.shape))
            else:
                np.testing.assert_array_equal(values, reference.array(name, p)[s, e], err_msg=name)


@pytest.mark.parametrize(
    ("at", "do"),
    [(4, fail), (14, lambda: True), (len(CALLS), fail)],
    ids=lambda value: value if isinstance(value, int) else "error" if value is fail else "true",
)
def test_a_stopped_study_goes_on_bit_for_bit(tiny, tmp_path, reference, at, do):
    """In the middle of a batch, in the second batch, and by an error after which only the results are to be written."""
    first, second, stops = Watcher(at, do), Watcher(), Interrupted if do is not fail else OwnError
    with pytest.raises(stops) as caught:
        mdfl_jax.run(tiny(**STUDY), tmp_path, on_evaluation=first)
    if do is fail:
        assert caught.value is ERROR
        assert (ERROR.__cause__, ERROR.__context__) == (CAUSE, None)
    together = at + at % 2  # both points of an evaluation are seen, but for an error in between
    assert first.calls == CALLS[: at if do is fail else together]
    results = mdfl_jax.run(tiny(**STUDY), tmp_path, on_evaluation=second)
    assert second.calls == CALLS[together:]
    assert_same(results, reference)
    mdfl_jax.run(tiny(**STUDY), tmp_path, on_evaluation=pytest.fail)  # it is finished, and only read


def test_a_stop_at_the_last_evaluation_stops_nothing(tiny, tmp_path, reference):
    results = mdfl_jax.run(tiny(**STUDY), tmp_path, on_evaluation=Watcher(len(CALLS), lambda: True))
    assert_same(results, reference)


def test_what_is_no_function_is_refused_before_anything_is_written(tiny, tmp_path):
    with pytest.raises(UserError, match="on_evaluation is 5; it must be a function"):
        mdfl_jax.run(tiny(**STUDY), tmp_path / "run", on_evaluation=5)
    assert not (tmp_path / "run").exists()


def test_a_bar_in_a_terminal_unless_it_is_not_wanted(tiny, monkeypatch):
    for progress in (True, False):
        monkeypatch.setattr(sys, "stderr", terminal := Terminal())
        with contextlib.redirect_stdout(Terminal()) as out:
            mdfl_jax.run(tiny(), progress=progress)
        assert ("8/8" in terminal.getvalue()) == progress  # 2 runs of 4 rounds
        assert bool(terminal.getvalue()) == progress
        assert out.getvalue() == ""
