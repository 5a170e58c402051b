"""The runner: the order of its events, and what it does at a stop."""

import numpy as np
import pytest
from tiny import tiny_config

from mdfl_jax.storage.checkpoint import Checkpoints
from mdfl_jax.study import make_study
from mdfl_jax.study.events import Compiling, Ended, Evaluated
from mdfl_jax.study.runner import Runner

STUDY = {"sweep": "network.mobility=static,random_movement", "seeds": 2, "engine.runs_per_batch": 2, "rounds": 6}


class Log:
    """A sink that keeps the events, and may call a function after some of them."""

    def __init__(self, at=0, do=None):
        self.events, self.at, self.do = [], at, do

    def take(self, event):
        self.events.append(event)
        if len(self.events) == self.at:
            self.do()


def run(study, folder, at=0, do=None):
    """Runs a study from what a checkpoint directory holds; returns its results and the sink."""
    log = Log(at, do)
    runner = Runner(study, Checkpoints(folder), [log])
    log.do = log.do and (lambda: do(runner))
    return runner.run(runner.read_back()), log


@pytest.fixture(scope="module")
def study():
    return make_study(tiny_config(**STUDY))


@pytest.fixture(scope="module")
def whole(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    results, log = run(study, folder)
    return folder, results, log


def assert_same(results, expected):
    for (runs, found), (wanted_runs, wanted) in zip(results, expected, strict=True):
        assert runs == wanted_runs
        for name, values in wanted.metrics.items():
            np.testing.assert_array_equal(found.metrics[name], values, err_msg=name)


@pytest.mark.long
def test_events_come_in_the_order_of_the_study(whole):
    """Compiling once, since both points share a program; then each batch with its evaluations, and its end."""
    kinds = [(type(event), event.batch.number) for event in whole[2].events]
    of_batch = [[(Evaluated, number)] * 4 + [(Ended, number)] for number in (0, 1)]
    assert kinds == [(Compiling, 0), *of_batch[0], *of_batch[1]]


@pytest.mark.long
def test_an_error_of_a_sink_ends_the_study_with_its_state_saved(study, whole, tmp_path):
    error = ValueError("the sink's own")
    with pytest.raises(ValueError, match="the sink's own") as raised:
        run(study, tmp_path, at=3, do=lambda runner: runner.stop(error))
    assert raised.value is error
    assert Checkpoints(tmp_path).progress().states == {"batch-000-at-00001": 1}
    assert_same(run(study, tmp_path)[0], whole[1])
