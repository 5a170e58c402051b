"""The display of a running study: the lines of a pipe, and their numbers."""

import io
import sys

import numpy as np
import pytest
from studies import batches_of

from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.study import make_study, progress
from mdfl_jax.study.events import Compiling, Ended, Evaluated
from mdfl_jax.study.progress import Progress

SHOWN = tuple(m for m in BUILT_IN if m.name in ("accuracy", "mean_model_accuracy", "mean_model_loss", "objective"))
ROUNDS, EVERY = 4, 2


@pytest.fixture(scope="module")
def study():
    """Two programs, of batches of two runs: the points static and dcm, each with one and with two local steps."""
    from tiny import tiny_config

    changes = {"sweep": "network.mobility=static,dcm; algorithm.local_steps=1,2", "engine.runs_per_batch": 2}
    return make_study(tiny_config(rounds=ROUNDS, eval_every=EVERY, baseline="network.mobility=static", **changes))


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def evaluated(batch, at, accuracy):
    """An event of a batch with one evaluation; the clients of each run have an accuracy 1 % above those of the last."""
    runs = len(batch.runs)
    values = {name: np.full((runs, 1), accuracy) for name in ("mean_model_accuracy", "mean_model_loss", "objective")}
    values |= {"round": np.full((runs, 1), at), "accuracy": np.full((runs, 1, 6), accuracy, np.float32)}
    line = {"round": at, "objective": np.nan, "mean_model_loss": accuracy}
    lines = [[line | {"accuracy": accuracy + i / 100}] for i in range(runs)]
    return Evaluated(batch, Metrics(SHOWN, values), None, lines, EVERY if at else 0, 0)


def test_plain_lines_are_rare_and_complete(study, monkeypatch):
    monkeypatch.setattr(progress, "TICK", 1000)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    said, clock = [], Clock()
    with Progress(study, said.append, clock=clock) as shown:
        first, second, *_ = batches_of(study)
        shown.take(Compiling(first))
        for after, number in ((0, 0), (2, 1), (31, 2)):
            clock.now += after
            shown.display.show(False)
            assert len(said) == number
        assert said == [f"compiling program 1 of 2 ({shown.tally.names()}) ...", "compiling program 1 of 2: 33 s"]
        for at, number in ((0, 2), (2, 2), (4, 3)):
            shown.take(evaluated(first, at, at / 10))
            clock.now += 20
            assert len(said) == number
        point = study.points[first.runs[0].point].id
        assert said[2] == (
            f"25 %: {len(first.runs)} of {len(study.runs)} runs at round 4 of 4, program 1 of 2; "
            f"accuracy (%): {point} 40.5; 0.2 rounds/s, 2 min 33 s left"
        )
        shown.take(Ended(first))
        shown.take(evaluated(second, 0, 0.1))
        assert len(said) == 3
