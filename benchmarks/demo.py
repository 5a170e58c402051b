"""Time the demo as a whole process, with a cold and a warm compilation cache: python -m benchmarks.demo"""

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from absl import flags

from benchmarks import measure
from mdfl_jax.cli import common
from mdfl_jax.core import devices

_REPEATS = flags.DEFINE_integer("repeats", 3, "Runs with a warm cache, after the one with a cold cache.")


def run_demo(workdir: Path, cache: Path) -> dict[str, Any]:
    """Run the demo once; return wall seconds, peak resident memory in MiB, and the seconds that the demo reports."""
    command = [sys.executable, "-m", "launch.sweep", "--config=configs/digits.py", "--overwrite"]
    seconds, mib = measure.process([*command, f"--workdir={workdir}", f"--cache={cache}"])
    made = json.loads((workdir / "config.json").read_text())
    return {
        "seconds": seconds,
        "peak_resident_mib": mib,
        "compile_seconds": made["compile_seconds"],
        "run_seconds": made["run_seconds"],
    }


def _cpu() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return f"{found.group(1) if found else 'unknown'}, {devices.num_cores()} cores"


def main() -> int:
    """Run the demo once with a cold and then with a warm cache."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for i in range(1 + _REPEATS.value):
            row = run_demo(base / "run", base / "cache")
            rows.append({"variant": "warm cache" if i else "cold cache", "cpu": _cpu(), **row})
    measure.report("demo", rows)
    return 0


if __name__ == "__main__":
    common.run_command(main)
