"""Stages of a command that take long are named, and short ones are not."""

import threading
import time

import pytest

from mdfl_jax.core import stages

PATIENCE = 0.15


@pytest.fixture
def lines():
    said = []
    with stages.telling(said.append, patience=PATIENCE):
        yield said


def test_a_long_stage_is_told_once_and_a_short_one_never(lines):
    with stages.stage("long"):
        deadline = time.monotonic() + 20
        while not lines and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(2 * PATIENCE)
    for _ in range(3):
        with stages.stage("short"):
            pass
    time.sleep(2 * PATIENCE)
    assert lines == ["long ..."]


def test_the_innermost_stage_is_told_and_the_one_around_it_after_it(lines):
    with stages.stage("outer"):
        with stages.stage("inner"):
            while len(lines) < 1:
                time.sleep(0.01)
        while len(lines) < 2:
            time.sleep(0.01)
    assert lines == ["inner ...", "outer ..."]


def test_an_error_ends_a_stage_and_no_timer_is_left(lines):
    with pytest.raises(KeyError), stages.stage("fails"):
        raise KeyError
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer) and thread.is_alive()
                and not thread.finished.is_set()]  # fmt: skip
    assert lines == []
