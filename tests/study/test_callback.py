"""A callback sees each evaluation once and in order, and may stop a study, which then goes on bit for bit."""

import signal
import threading

import numpy as np
import pytest
from studies import assert_same

import mdfl_jax
from mdfl_jax import Interrupted

pytestmark = pytest.mark.long  # studies of several seconds

# Two batches, of five runs and of four: the second point has a seed in each of them. Four evaluations a batch.
STUDY = {"sweep": "network.mobility=static,random_movement,dcm", "seeds": 3, "engine.runs_per_batch": 5, "rounds": 6,
         "engine.record_positions": True, "algorithm.batch_size": 4}  # fmt: skip
PARTS = [("static", [0, 1, 2]), ("random_movement", [0, 1])], [("random_movement", [2]), ("dcm", [0, 1, 2])]
CALLS = [(point, seeds, r) for parts in PARTS for r in (0, 2, 4, 6) for point, seeds in parts]


class Watcher:
    """Records what it sees, and at its n-th call, counted from 1, stops or fails."""

    def __init__(self, at=0, error=None):
        self.at, self.error, self.seen = at, error, []

    def __call__(self, info):
        self.seen.append(info._replace(metrics={name: np.copy(values) for name, values in info.metrics.items()}))
        for values in info.metrics.values():
            values[...] = 0  # the results must not notice
        if self.error and len(self.seen) == self.at:
            raise self.error
        return len(self.seen) == self.at

    @property
    def calls(self):
        return [(info.point, info.seeds, info.round) for info in self.seen]


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


def test_each_evaluation_is_seen_once_and_in_order_with_the_values_of_the_history(tiny, tmp_path, reference):
    watcher = Watcher(at=len(CALLS))  # a stop at the last evaluation stops nothing
    mdfl_jax.run(tiny(**STUDY), tmp_path, on_evaluation=watcher)
    assert_same(tmp_path, reference.workdir)
    assert watcher.calls == CALLS
    seconds = [info.seconds for info in watcher.seen]
    assert seconds == sorted(seconds)
    for info in watcher.seen:
        p, s, e = reference.points.index(info.point), np.array(info.seeds), info.round // 2
        own = {name.partition("/")[2] for name in reference.arrays if name.startswith(f"{p}/")}
        assert {"accuracy", "loss", "messages", "position"} <= own & set(info.metrics)
        for name in own & set(info.metrics) - {"links", "destination", "centre"}:  # what is recorded of each round
            wanted = reference.array(name, p)[s, e]
            if name == "position":
                wanted = reference.array(name, p)[s, slice(0, 1) if e == 0 else slice(2 * e - 1, 2 * e + 1)]
            np.testing.assert_array_equal(info.metrics[name], wanted, err_msg=name)


def test_a_stopped_study_goes_on_bit_for_bit(tiny, tmp_path, reference):
    """In the middle of a batch, in the second batch, and by an error after which only the results are to be written."""
    done = 0
    for at, upto, error in ((4, 4, RuntimeError("of the user")), (13, 14, None), (16, 16, RuntimeError("at the end"))):
        watcher = Watcher(at - done, error)
        with pytest.raises(RuntimeError if error else Interrupted) as caught:
            mdfl_jax.run(tiny(**STUDY), tmp_path, on_evaluation=watcher)
        assert not error or caught.value is error
        assert watcher.calls == CALLS[done:upto]  # both points of an evaluation are seen, but for an error in between
        done = upto
    assert done == len(CALLS)
    mdfl_jax.run(tiny(**STUDY), tmp_path, on_evaluation=pytest.fail)  # of which only the results are to be written
    assert_same(tmp_path, reference.workdir)
