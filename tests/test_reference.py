"""The slow simulator of `tests.reference` judges the fast one with drawn configurations, in each run the same ones."""

import re
import subprocess
import sys

from tests.shell import ROOT


def drawn_for(minutes, seed):
    """Run the draws of one seed for some minutes; a difference fails with the smallest configuration that shows it."""
    command = [sys.executable, "-m", "tests.reference", f"--minutes={minutes}", f"--seed={seed}", "--workers=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60 * minutes + 600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"([\d,]+) times a pair was drawn", done.stdout)[1].replace(",", "")) > 0


def test_drawn_configurations_agree_with_the_slow_simulator():
    drawn_for(0.4, 7)
