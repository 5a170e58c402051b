"""Film the first minutes of a new user: commands in an empty folder, each with its seconds.

python -m benchmarks.first_minutes          writes docs/first-minutes.md; it takes some three minutes on two CPU cores

The package is installed already. The first study compiles its programs: the cache of compiled programs is empty.
"""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import measure

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "first-minutes.md"
STEPS = (
    ("mdfl info", "Is it installed, and which devices are used?"),
    ("mdfl sweep digits", "The demo, from nothing to its report"),
    ("mdfl sweep digits", "The same command finds all runs"),
    ("mdfl sweep digits --config.seeds=8", "Two more seeds"),
    ("mdfl report runs/digits --figure=accuracy --to=accuracy.png", "A figure for a paper"),
    ("mdfl info mobility.dcm", "What is DCM, distribution-aware cluster-centre movement?"),
    ("mdfl new mobility my_rule", "A rule to begin with"),
    ("mdfl sweep ./my_rule.py --config.rounds=100", "A study of this rule"),
    ("mdfl cite runs/digits", "What to cite"),
)
"""The commands in their order, and what each is for."""


def film(folder: Path, further: Sequence[str] = ()) -> list[float]:
    """Run the steps in a folder.

    Args:
      folder: the folder, which is empty.
      further: flags for every `mdfl sweep`, as of tests, which shorten the studies.

    Returns:
      The seconds of each step.

    Raises:
      subprocess.CalledProcessError: if a command ends with another status than 0.
    """
    there = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / ".cache"), "HOME": str(folder)}
    seconds = []
    for line, _ in STEPS:
        words = shlex.split(line)[1:]
        command = [sys.executable, "-m", "mdfl_jax.cli.entry", *words, *(further if words[0] == "sweep" else ())]
        begin = time.monotonic()
        subprocess.run(command, cwd=folder, check=True, capture_output=True, env={**os.environ, **there})
        seconds.append(time.monotonic() - begin)
    return seconds


def page(seconds: Sequence[float], machine: str) -> str:
    """Return the text of docs/first-minutes.md."""
    lines = [
        "# The first minutes",
        "",
        f"What a new user types in an empty folder, with the seconds of each command on {machine}. The package is"
        " installed, and nothing is compiled yet. `python -m benchmarks.first_minutes` writes this page.",
        "",
        "| for what | command | seconds | in all |",
        "| :-- | :-- | --: | --: |",
    ]
    for k, ((line, what), of) in enumerate(zip(STEPS, seconds)):
        lines.append(f"| {what} | `{line}` | {of:.0f} | {sum(seconds[: k + 1]):.0f} |")
    return "\n".join([*lines, "", "Next: the [tutorial](tutorial.md).", ""])


def main() -> None:
    """Film, and write the page."""
    machine = measure.machine()
    with tempfile.TemporaryDirectory() as folder:
        seconds = film(Path(folder))
    PAGE.write_text(page(seconds, f"{os.cpu_count()} CPU cores ({machine['date']})"))
    print(PAGE)


if __name__ == "__main__":
    main()
