"""A study that counts costs is stopped, shared and resumed: its metric `seconds` is not the time on the clock."""

import jax
import numpy as np
import pytest
from mdfl_jax.storage.checkpoint import Checkpoints

import mdfl_jax
from mdfl_jax import Interrupted
from mdfl_jax.core.metric import HOLDS, Metric
from mdfl_jax.core.types import RunFacts
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.networks.costs.account import SECONDS
from mdfl_jax.study.batch import BatchResult, from_arrays, to_arrays

STUDY = {
    "rounds": 6,
    "sweep": "network.mobility=static,dcm",
    "engine.runs_per_batch": 2,
    "cost.seconds_per_sample": 0.5,
    "cost.bandwidth": 1e4,
    "cost.joules_per_bit": 1e-6,
    "cost.joules_per_metre": 1.0,
}
DECLARED = (SECONDS, Metric("other", lambda at: at.messages, HOLDS, shape=()))


def result():
    """A result of two runs and three evaluations, whose simulated seconds are not those on the clock."""
    simulated = np.arange(6, dtype=np.float32).reshape(2, 3)
    values = {"round": np.array([[0, 2, 4]] * 2), "seconds": simulated, "other": -simulated}
    facts = RunFacts(np.ones((2, 4, 10), np.int32), np.zeros((2, 4), bool), np.zeros((2, 4), bool))
    return BatchResult(Metrics(DECLARED, values), facts, 7.5, 8.5)


def assert_same(found, wanted):
    assert found[2:] == wanted[2:]
    assert dict(found.metrics).keys() == dict(wanted.metrics).keys()
    jax.tree.map(np.testing.assert_array_equal, tuple(found[:2]), tuple(wanted[:2]))


def test_a_finished_batch_comes_back_with_both_kinds_of_seconds(tmp_path):
    """In the form of checkpoints, which is also that of the results of other processes."""
    assert_same(from_arrays(to_arrays(result()), DECLARED), result())
    Checkpoints(tmp_path).save({0: to_arrays(result())}, {})
    assert_same(from_arrays(Checkpoints(tmp_path).load("batch-000"), DECLARED), result())


@pytest.fixture(scope="module")
def unbroken(tiny, tmp_path_factory):
    return mdfl_jax.run(tiny(**STUDY), tmp_path_factory.mktemp("unbroken") / "run", progress=False)


@pytest.mark.long
@pytest.mark.parametrize(
    ("at", "finished", "under_way"),
    [(2, [], ["batch-000-at-00001"]), (6, ["batch-000"], ["batch-001-at-00001"])],
)
def test_a_stopped_study_with_costs_goes_on_bit_for_bit(tiny, tmp_path, unbroken, at, finished, under_way):
    """In the first batch, and in the second, when the finished one is read back."""
    calls = []

    def stop(info):
        calls.append(info)
        return len(calls) == at

    with pytest.raises(Interrupted):
        mdfl_jax.run(tiny(**STUDY), tmp_path / "run", progress=False, on_evaluation=stop)
    progress = Checkpoints(tmp_path / "run" / "checkpoints").progress()
    assert (progress.finished, list(progress.states)) == (finished, under_way)
    resumed = mdfl_jax.run(tiny(**STUDY), tmp_path / "run", progress=False)
    assert resumed.arrays.keys() == unbroken.arrays.keys()
    for name, wanted in unbroken.arrays.items():
        np.testing.assert_array_equal(resumed.arrays[name], wanted, err_msg=name)
    assert (unbroken.array("seconds", "dcm")[:, -1] > 0).all()
    lines = [(folder / "metrics.jsonl").read_bytes() for folder in (tmp_path / "run", unbroken.workdir)]
    assert lines[0] == lines[1]
