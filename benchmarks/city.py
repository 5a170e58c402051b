"""Measure what a city costs: python -m benchmarks.city --trace=DIR/city/city.fcd.xml.gz [--workdir=runs/city]

`python configs/data/make_city.py` makes the trace; what it said is the row "traffic". The row "reading" has the seconds
and the largest memory of a fresh process that reads the trace and resamples it to 600 rounds of 6 s of 5,000 clients.
With the folder of a finished study of configs/city.py, the row "study" has its seconds, and the row "report" those of a
fresh process that makes its report, with the size of the page.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from absl import flags

from benchmarks import measure
from mdfl_jax.cli import common
from mdfl_jax.core.errors import UserError

_TRACE = flags.DEFINE_string("trace", "", "The trace, as make_city.py has written it.")
_WORKDIR = flags.DEFINE_string("workdir", "", "The folder of a finished study of the city; empty: none is measured.")
_CLIENTS = flags.DEFINE_integer("clients", 5000, "Vehicles that are clients.", lower_bound=1)
_ROUNDS = flags.DEFINE_integer("rounds", 600, "Rounds of 6 s.", lower_bound=1)

HEAD = """
import json, sys, time
def peak():  # getrusage would count what this process was before it became Python
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
begin, busy = time.perf_counter(), time.process_time()
"""
READ = f"""{HEAD}
from mdfl_jax import traces
from mdfl_jax.mobility.trace import tracks
row = {{"baseline_mb": peak()}}
begin, busy = time.perf_counter(), time.process_time()
trace = traces.load(sys.argv[1])
row |= {{"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - busy, "peak_mb": peak()}}
begin = time.perf_counter()
table = traces.resample(trace, 6.0, int(sys.argv[3]), int(sys.argv[2]), gaps="absent")
row |= {{"resample_seconds": time.perf_counter() - begin, "resample_peak_mb": peak(), "samples": len(trace.node)}}
row |= {{"vehicles": len(trace.ids), "present": float(table.present.mean())}}
row["bytes_a_client_and_round"] = sum(part.nbytes for part in tracks(table)[:3]) / table.present.size
print(json.dumps(row))
"""
REPORT = f"""{HEAD}
from mdfl_jax.results.results import Results
path = Results.read(sys.argv[1]).report()
row = {{"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - busy, "peak_mb": peak()}}
print(json.dumps(row | {{"page_mb": path.stat().st_size / 2**20}}))
"""


def fresh(script: str, *arguments: object) -> dict[str, Any]:
    """Run a script in a fresh process, and return the JSON object of its last line."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError((done.stderr.strip().splitlines() or ["the process ended without a word"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Read the trace, make the report of the study, and report the measurements."""
    trace = Path(_TRACE.value)
    if not trace.is_file():
        raise UserError(f"--trace={_TRACE.value}: there is no such file; python configs/data/make_city.py makes it")
    about = trace.with_name(trace.name.replace(".fcd.xml.gz", ".json"))
    rows: list[dict[str, Any]] = []
    if about.is_file():
        made = json.loads(about.read_text())
        size = {"seconds": made["seconds"], "file_mb": trace.stat().st_size / 2**20}
        rows.append({"variant": "traffic", **size, **made["traffic"]})
    rows.append({"variant": "reading", **fresh(READ, trace, _CLIENTS.value, _ROUNDS.value)})
    if _WORKDIR.value:
        folder = Path(_WORKDIR.value)
        if not (folder / "config.json").is_file():
            raise UserError(f"--workdir={folder}: it has no config.json, so it is no study")
        manifest = json.loads((folder / "config.json").read_text())
        rows.append({"variant": "study", **{key: manifest.get(key) for key in ("compile_seconds", "run_seconds")}})
        rows.append({"variant": "report", **fresh(REPORT, folder)})
    measure.report("city", rows)
    return 0


if __name__ == "__main__":
    common.run_command(main)
