"""The display of a running study: its numbers against a count by hand, the bar of a terminal, the lines of a pipe."""

import io
import sys
import threading

import numpy as np
import pytest
from small import Terminal
from studies import batches_of

from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.study import make_study, progress
from mdfl_jax.study.events import Compiling, Ended, Evaluated
from mdfl_jax.study.progress import Progress, Tally

SHOWN = tuple(m for m in BUILT_IN if m.name in ("accuracy", "mean_model_accuracy", "mean_model_loss", "objective"))
ROUNDS, EVERY = 4, 2


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def after(self, seconds):
        self.now += seconds


def evaluated(batch, rounds, accuracy, first=False, earlier=0, objective=np.nan):
    """An event of a batch with the evaluations at these rounds; every client of every run has this accuracy."""
    runs, E = len(batch.runs), len(rounds)
    values = {
        "round": np.broadcast_to(rounds, (runs, E)),
        "accuracy": np.full((runs, E, 6), accuracy, np.float32) + np.arange(runs)[:, None, None] / 100,
        "mean_model_accuracy": np.full((runs, E), accuracy, np.float32),
        "mean_model_loss": np.full((runs, E), 1.5),
        "objective": np.full((runs, E), objective),
    }
    done = 0 if first or earlier else EVERY
    rest = {"objective": objective, "mean_model_loss": 1.5}
    lines = [[{"round": at, "accuracy": accuracy + i / 100, **rest} for at in rounds] for i in range(runs)]
    return Evaluated(batch, Metrics(SHOWN, values), None, lines, done, earlier)


@pytest.fixture(scope="module")
def study():
    """Two programs, of batches of two runs: the points static and dcm, each with one and with two local steps."""
    from tiny import tiny_config

    changes = {"sweep": "network.mobility=static,dcm; algorithm.local_steps=1,2", "engine.runs_per_batch": 2}
    return make_study(tiny_config(rounds=ROUNDS, eval_every=EVERY, baseline="network.mobility=static", **changes))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tally(study, clock):
    return Tally(study, clock)


def test_the_tally_counts_as_by_hand(study, tally, clock):
    first, second, third, fourth = batches_of(study)  # two of each program
    assert (tally.total, tally.programs, tally.done) == (4 * 8, 2, 0)
    assert (tally.compiling, tally.speed(), tally.values(), tally.names()) == ("", "", "", "")
    tally.take(Compiling(first))
    clock.after(7)
    assert tally.compiling == "compiling program 1 of 2: 7 s"
    assert set(tally.names().split("; ")) == {study.points[p].id for p in first.group.points}
    clock.after(3)
    tally.take(evaluated(first, [0], 0.1, first=True))
    assert (tally.compiling, tally.done, tally.speed()) == ("", 0, "")
    clock.after(2)
    tally.take(evaluated(first, [2], 0.2))
    assert (tally.done, tally.round, tally.rate) == (2 * 2, 2, 2.0)
    # 28 rounds at 2 a second, and the second program, which compiles as long as the first: 10 s
    assert tally.seconds_left == 28 / 2 + 10
    assert tally.speed() == "2 rounds/s, 24 s left"
    clock.after(4)
    tally.take(evaluated(first, [4], 0.3))
    tally.take(Ended(first))
    assert (tally.done, tally.rate) == (8, 8 / 6)
    tally.take(evaluated(second, [0], 0.1, first=True))
    clock.after(1)
    tally.take(evaluated(second, [2], 0.5))
    assert tally.rate == (8 + 4) / 7
    tally.take(Compiling(third))
    assert tally.rate == 12 / 7  # until the new program has a speed of its own
    clock.after(2)
    tally.take(evaluated(third, [0], 0.1, first=True))
    clock.after(1)
    tally.take(evaluated(third, [2], 0.5))
    assert (tally.rate, tally.program, fourth.group is third.group) == (4.0, 2, True)


def test_what_was_done_before_is_done_but_not_counted_as_speed(study, tally, clock):
    """A finished batch is read back, and another one goes on after its first evaluation."""
    first, second, *_ = batches_of(study)
    tally.take(evaluated(first, [0, 2, 4], 0.4, earlier=3))
    tally.take(Ended(first))
    assert (tally.done, tally.speed()) == (8, "")
    tally.take(Compiling(second))
    clock.after(5)
    tally.take(evaluated(second, [0, 2], 0.3, first=True, earlier=2))
    assert (tally.done, tally.round, tally.speed()) == (12, 2, "")
    clock.after(2)
    tally.take(evaluated(second, [4], 0.3))
    assert (tally.done, tally.rate) == (16, 2.0)


def test_runs_that_have_diverged_are_in_no_mean_and_a_point_of_such_runs_is_said_to_have_diverged(study, tally):
    first, second, *_ = batches_of(study)
    tally.take(evaluated(first, [0], 0.1, first=True))
    halfway = evaluated(second, [2], 0.2)
    halfway.lines[1][-1]["accuracy"] = np.nan
    tally.take(halfway)
    lost = evaluated(first, [2], np.nan)
    for of_run in lost.lines:
        of_run[-1]["mean_model_loss"] = np.nan
    tally.take(lost)
    names = [study.points[batch.runs[0].point].id for batch in (first, second)]
    assert tally.values().startswith("accuracy (%): ")
    assert f"{names[1]} 20.0" in tally.values()
    assert f"{names[0]} diverged" in tally.values()


def test_plain_lines_are_rare_and_complete(study, clock, monkeypatch):
    monkeypatch.setattr(progress, "TICK", 1000)
    said = []
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress(study, said.append, clock=clock) as shown:
        first, second, *_ = batches_of(study)
        shown.take(Compiling(first))
        shown.display.show(None)
        assert said == []  # a second has not passed
        clock.after(2)
        shown.display.show(None)
        names = shown.tally.names()
        assert said == [f"compiling program 1 of 2 ({names}) ..."]
        clock.after(31)
        shown.display.show(None)
        assert said[1:] == ["compiling program 1 of 2: 33 s"]
        shown.take(evaluated(first, [0], 0.1, first=True))
        clock.after(20)
        shown.take(evaluated(first, [2], 0.2))
        assert len(said) == 2
        clock.after(20)
        shown.take(evaluated(first, [4], 0.3))
        point = study.points[first.runs[0].point].id
        assert said[2:] == [
            f"25 %: {len(first.runs)} of {len(study.to_do())} runs at round 4 of 4, program 1 of 2; "
            f"accuracy (%): {point} 30.5; 0.2 rounds/s, 2 min 33 s left"
        ]
        shown.take(Ended(first))
        shown.take(evaluated(second, [0], 0.1, first=True))
        assert len(said) == 3


def test_a_terminal_has_a_bar_with_speed_and_accuracies_and_the_seconds_of_compiling(study, clock, monkeypatch):
    monkeypatch.setattr(progress, "TICK", 0.02)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Progress(study, pytest.fail, clock=clock) as shown:
        first = batches_of(study)[0]
        shown.take(Compiling(first))
        for seconds in range(1, 4):
            clock.after(1)
            wanted = f"compiling program 1 of 2: {seconds} s"
            assert _appears(terminal, wanted)  # without an event: the thread's doing
        assert shown.tally.names() in terminal.getvalue()
        shown.take(evaluated(first, [0], 0.1, first=True))
        clock.after(1)
        shown.take(evaluated(first, [2], 0.2))
    text = terminal.getvalue()
    assert "4/32 rounds" in text
    assert "4 rounds/s, 10 s left" in text
    assert f"accuracy (%): {study.points[first.runs[0].point].id} 20.5" in text
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


def _appears(terminal, wanted):
    for _ in range(12_000):  # a busy machine
        if wanted in terminal.getvalue():
            return True
        threading.Event().wait(0.01)
    return False
