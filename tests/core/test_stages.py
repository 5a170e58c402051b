"""Stages of a command that take long are named, and short ones are not."""

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
