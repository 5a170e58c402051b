"""The slow simulator of `tests.reference` judges the fast one with drawn configurations.

The draws are the same each time, so a failure is the fault of a change. New ones are drawn by
``python -m tests.reference``, whose matrix of pairs is benchmarks/results/reference.json.
"""

import re
import subprocess
import sys

import pytest

from tests.shell import ROOT

SEED = 601


@pytest.mark.parametrize("minutes", [0.5, pytest.param(3, marks=pytest.mark.long)])
def test_drawn_configurations_agree_with_the_slow_simulator(minutes):
    seed = SEED + (minutes > 1)
    command = [sys.executable, "-m", "tests.reference", f"--minutes={minutes}", f"--seed={seed}", "--workers=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60 * minutes + 900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"([\d,]+) times a pair was drawn", done.stdout)[1].replace(",", "")) > 0
