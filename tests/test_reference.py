"""The slow simulator of `tests.reference` judges the fast one with configurations that are drawn anew each time."""

import re
import subprocess
import sys

import pytest

from tests.shell import ROOT


def drawn_for(minutes):
    """Run the draws of one process for some minutes and return their report; a difference fails with its seed."""
    command = [sys.executable, "-m", "tests.reference", f"--minutes={minutes}", "--workers=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60 * minutes + 600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"([\d,]+) times a pair was drawn", done.stdout)[1].replace(",", "")) > 0
    return done.stdout


def test_drawn_configurations_agree_with_the_slow_simulator():
    drawn_for(0.4)


@pytest.mark.long
def test_drawn_configurations_agree_for_minutes():
    drawn_for(2)
