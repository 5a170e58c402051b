"""What the store costs: python -m benchmarks.store

Two numbers of the demo. The share of its time that it takes to save at the default interval: the seconds of saving the
states of a batch, over the seconds between two saves, or of the whole demo if that is shorter. And the seconds from the
start of the command that resumes a stopped demo to its first round, with a warm compilation cache. A save is that of
the host's arrays to the disk: what it takes to fetch them from a device is not in it, which on a CPU is a copy.

And the seconds of a large study, of 5,000 finished runs that nobody has run: to list its runs, and to write its views.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from absl import flags

from benchmarks import measure, report
from mdfl_jax.cli import common
from mdfl_jax.config.resolve import default_config
from mdfl_jax.results.records import read_records, read_study
from mdfl_jax.results.results import write_views
from mdfl_jax.storage import array_files
from mdfl_jax.storage.study_files import RUNS, STATE_SUFFIX
from mdfl_jax.study.states import STATE_FORMAT

_REPEATS = flags.DEFINE_integer("repeats", 3, "Resumed studies, after one that fills the cache.")
_CONFIG = flags.DEFINE_string("study", "configs/digits.py", "Config file of the study.")
_SAVES = 20  # timed saves of the states of the demo
LARGE = report.Size(tuple(1 + k / 25 for k in range(50)), 25, 400, 20, 20, records=False)  # 4 x 50 points


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


def _states(workdir: Path) -> list[Path]:
    """Return the states of the runs that are under way."""
    found = sorted((workdir / RUNS).glob("*" + STATE_SUFFIX))
    return [path for path in found if not array_files.read(path, STATE_FORMAT, only=())[0]["ended"]]


def resumed(workdir: Path, cache: Path) -> float:
    """Resume a stopped study; return the seconds to its first further round, and kill it there."""
    states = _states(workdir)
    done = array_files.read(states[0], STATE_FORMAT, only=())[0]["evaluations"]
    (workdir / "metrics.jsonl").unlink()  # it is written anew, first the lines that are read back
    process = subprocess.Popen(_command(workdir, cache), stdout=subprocess.DEVNULL)
    seconds = _until_lines(process, workdir, (1 + done) * len(states))
    process.kill()
    process.wait()
    return seconds


def seconds_of_a_save(workdir: Path, scratch: Path) -> tuple[float, int]:
    """Save the states of a stopped study several times; return the median seconds and the bytes of the states."""
    states = {path: array_files.read(path, STATE_FORMAT) for path in _states(workdir)}
    seconds = []
    for number in range(_SAVES):
        begun = time.perf_counter()
        for path, (header, arrays) in states.items():
            about = {"run": header["run"], "evaluations": number, "earlier": "", "ended": False}
            array_files.write(scratch / path.name, STATE_FORMAT, about, arrays, compress=False)
        os.sync()  # what the system writes later is a cost too
        seconds.append(time.perf_counter() - begun)
    octets = sum(array.nbytes for _, arrays in states.values() for array in arrays.values())
    return measure.spread(seconds)["median"], octets


def large(workdir: Path, size: report.Size = LARGE) -> dict[str, Any]:
    """List a study of many finished runs and write its views; return the row with the seconds of both."""
    report.write(workdir, next(iter(report.RULES)), size, views=False)
    begun = time.perf_counter()
    manifest = read_study(workdir)
    runs = sum(map(len, read_records(workdir, manifest)))
    listed = time.perf_counter()
    write_views(workdir, manifest)
    written = time.perf_counter()
    return {"variant": "a large study", "runs": runs, "list_seconds": listed - begun, "view_seconds": written - listed}


def main() -> int:
    """Measure the share of saving, the seconds until a resumed study goes on, and those of a large study."""
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
        rows.append(large(base / "large"))
    measure.report("store", rows)
    return 0


if __name__ == "__main__":
    common.run_command(main)
