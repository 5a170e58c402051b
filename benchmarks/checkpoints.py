"""What checkpoints cost: python -m benchmarks.checkpoints

Two numbers of the demo. The share of its time that it takes to save at the default interval: the seconds of a save,
over the seconds between two saves, or of the whole demo if that is shorter. And the seconds from the start of the
command that resumes a stopped demo to its first round, with a warm compilation cache. A save is that of the host's
arrays to the disk: what it takes to fetch them from a device is not in it, which on a CPU is a copy.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from absl import flags
from mdfl_jax.storage.checkpoint import Checkpoints

from benchmarks import measure
from mdfl_jax.cli import common
from mdfl_jax.config.resolve import default_config

_REPEATS = flags.DEFINE_integer("repeats", 3, "Resumed studies, after one that fills the cache.")
_CONFIG = flags.DEFINE_string("study", "configs/digits.py", "Config file of the study.")
_SAVES = 20  # timed saves of the state of the demo


def _command(workdir: Path, cache: Path, *more: str) -> list[str]:
    command = [sys.executable, "-m", "launch.sweep", f"--config={_CONFIG.value}", f"--workdir={workdir}"]
    return [*command, f"--cache={cache}", "--noreport", *more]


def _lines(workdir: Path) -> int:
    path = workdir / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def _until_lines(process: subprocess.Popen, workdir: Path, more_than: int) -> float:
    """Wait until a study has written more than so many lines; return the seconds that this took."""
    begun = time.perf_counter()
    while _lines(workdir) <= more_than:
        if process.poll() is not None:
            raise SystemExit(f"the study ended with status {process.returncode} before it was stopped")
        time.sleep(0.01)
    return time.perf_counter() - begun


def stopped(workdir: Path, cache: Path) -> None:
    """Stop a study after its first rounds, so that it saves its state."""
    process = subprocess.Popen(_command(workdir, cache, "--overwrite"), stdout=subprocess.DEVNULL)
    _until_lines(process, workdir, 0)
    first = _lines(workdir)
    _until_lines(process, workdir, first)
    process.send_signal(signal.SIGTERM)
    if process.wait() != 130:
        raise SystemExit("the study was not stopped in its first batch; it is too short")


def resumed(workdir: Path, cache: Path) -> float:
    """Resume a stopped study; return the seconds to its first further round, and kill it there."""
    (name,) = Checkpoints(workdir / "checkpoints").progress().states
    config = json.loads((workdir / "config.json").read_text())
    done = int(name.rpartition("-")[2])
    (workdir / "metrics.jsonl").unlink()  # it is written anew, first the lines that are read back
    before = (1 + done) * config["runs_per_batch"][0]
    process = subprocess.Popen(_command(workdir, cache), stdout=subprocess.DEVNULL)
    seconds = _until_lines(process, workdir, before)
    process.kill()
    process.wait()
    return seconds


def seconds_of_a_save(workdir: Path, scratch: Path) -> tuple[float, int]:
    """Save the state of a stopped study several times; return the median seconds and the bytes of a state."""
    there = Checkpoints(workdir / "checkpoints")
    ((name, done),) = there.progress().states.items()
    state, seconds = there.load(name), []
    for number in range(_SAVES):
        begun = time.perf_counter()
        Checkpoints(scratch).save({}, {0: (done + number, state)})
        os.sync()  # what the system writes later is a cost too
        seconds.append(time.perf_counter() - begun)
    return measure.spread(seconds)["median"], sum(array.nbytes for array in state.values())


def main() -> int:
    """Measure the share of saving, and the seconds until a resumed study goes on."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        whole, _ = measure.process(_command(base / "whole", base / "cache", "--overwrite"))  # fills the cache
        whole, _ = measure.process(_command(base / "whole", base / "cache", "--overwrite"))
        stopped(base / "run", base / "cache")
        save, octets = seconds_of_a_save(base / "run", base / "scratch")
        interval = min(60 * default_config().engine.checkpoint_minutes, whole)
        rows.append({"variant": "save", "seconds": save, "state_mib": octets / 2**20, "interval_seconds": interval,
                     "study_seconds": whole, "share": save / interval})  # fmt: skip
        seconds = []
        for _ in range(_REPEATS.value):
            stopped(base / "run", base / "cache")
            seconds.append(resumed(base / "run", base / "cache"))
        rows.append({"variant": "resume to the first rounds, warm cache", "seconds": measure.spread(seconds)})
    measure.report("checkpoints", rows)
    return 0


if __name__ == "__main__":
    common.run(main)
