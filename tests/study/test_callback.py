"""A callback sees each evaluation once and in order. That it may stop a study is in test_store.py and others."""

import signal
import threading

import numpy as np
import pytest
from studies import assert_same

import mdfl_jax

pytestmark = pytest.mark.long  # studies of several seconds

# Two batches, of five runs and of four: the second point has a seed in each of them. Four evaluations a batch.
STUDY = {"sweep": "network.mobility=static,random_movement,dcm", "seeds": 3, "engine.runs_per_batch": 5, "rounds": 6,
         "engine.record_positions": True, "algorithm.batch_size": 4}  # fmt: skip
PARTS = [("static", [0, 1, 2]), ("random_movement", [0, 1])], [("random_movement", [2]), ("dcm", [0, 1, 2])]
CALLS = [(point, seeds, r) for parts in PARTS for r in (0, 2, 4, 6) for point, seeds in parts]


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
    seen = []

    def watch(info):
        seen.append(info._replace(metrics={name: np.copy(values) for name, values in info.metrics.items()}))
        for values in info.metrics.values():
            values[...] = 0  # the results must not notice
        return len(seen) == len(CALLS)  # a stop at the last evaluation stops nothing

    mdfl_jax.run(tiny(**STUDY), tmp_path, on_evaluation=watch)
    assert_same(tmp_path, reference.workdir)
    assert [(info.point, info.seeds, info.round) for info in seen] == CALLS
    seconds = [info.seconds for info in seen]
    assert seconds == sorted(seconds)
    for info in seen:
        p, s, e = reference.points.index(info.point), np.array(info.seeds), info.round // 2
        own = {name.partition("/")[2] for name in reference.arrays if name.startswith(f"{p}/")}
        assert {"accuracy", "loss", "messages", "position"} <= own & set(info.metrics)
        for name in own & set(info.metrics) - {"links", "destination", "centre"}:  # what is recorded of each round
            wanted = reference.array(name, p)[s, e]
            if name == "position":
                wanted = reference.array(name, p)[s, slice(0, 1) if e == 0 else slice(2 * e - 1, 2 * e + 1)]
            np.testing.assert_array_equal(info.metrics[name], wanted, err_msg=name)
