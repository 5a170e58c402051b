"""Measure the seconds and the memory of reading traces: python -m benchmarks.traces --vehicles=1000 --steps=3600

For each format, the script writes a file with that many vehicles and steps of one second to a temporary folder, and
reads it in a fresh process. It measures the seconds of `mdfl_jax.traces.load` and the largest resident memory of the
process, and then the same after `resample` to rounds of 10 s. `baseline_mb` is the memory of the process before it
reads the file (Python and NumPy). Vehicles drive to and fro on streets. SUMO's lines are as long as SUMO writes them by
default, about 145 bytes.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from absl import flags

from benchmarks import measure
from mdfl_jax.cli import common

_VEHICLES = flags.DEFINE_integer("vehicles", 1000, "Vehicles.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 3600, "Steps of one second.", lower_bound=20)
_FORMATS = flags.DEFINE_list("formats", ["sumo", "csv", "bonnmotion", "ns2", "contacts"], "Which formats.")

READ = """
import json, sys, time
from mdfl_jax import traces
def peak():  # getrusage would count what this process was before it became Python
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
baseline, begin = peak(), time.perf_counter()
loaded = traces.load(sys.argv[1])
row = {"seconds": time.perf_counter() - begin, "baseline_mb": baseline, "peak_mb": peak()}
begin = time.perf_counter()
if isinstance(loaded, traces.Contacts):
    row["samples"] = len(loaded.pair)
    traces.contact_table(loaded, int(loaded.pair.max()) + 1)
else:
    row["samples"] = len(loaded.node)
    traces.resample(loaded, 10.0, rounds=int(sys.argv[2]) // 10 - 1)
row |= {"resample_seconds": time.perf_counter() - begin, "resample_peak_mb": peak()}
print(json.dumps(row))
"""


def places(vehicles: int, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the places of all vehicles, one step of 1 s after the other.

    Every vehicle drives to and fro on its street of 5 km, at its own speed.

    Yields:
      x [vehicles] and y [vehicles], in metres.
    """
    rng = np.random.default_rng(0)
    offset, speed, street = (
        rng.uniform(0, 10_000, vehicles),
        rng.uniform(5, 20, vehicles),
        rng.integers(0, 50, vehicles),
    )
    across = rng.random(vehicles) < 0.5
    for step in range(steps):
        along = np.abs((offset + speed * step) % 10_000 - 5_000)
        yield np.where(across, along, street * 100.0), np.where(across, street * 100.0, along)


def write_sumo(out: TextIO, vehicles: int, steps: int) -> None:
    """Write SUMO's FCD output with its default attributes."""
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n<fcd-export>\n')
    for step, (x, y) in enumerate(places(vehicles, steps)):
        out.write(f'    <timestep time="{step}.00">\n')
        out.writelines(
            f'        <vehicle id="veh{i}" x="{a:.2f}" y="{b:.2f}" angle="90.00" type="DEFAULT_VEHTYPE" speed="13.89"'
            f' pos="5.10" lane="-A0B{i % 100}_0" slope="0.00"/>\n'
            for i, (a, b) in enumerate(zip(x.tolist(), y.tolist()))
        )
        out.write("    </timestep>\n")
    out.write("</fcd-export>\n")


def write_csv(out: TextIO, vehicles: int, steps: int) -> None:
    """Write CSV rows time,id,x,y in the order of time."""
    out.write("time,id,x,y\n")
    for step, (x, y) in enumerate(places(vehicles, steps)):
        out.writelines(f"{step},veh{i},{a:.2f},{b:.2f}\n" for i, (a, b) in enumerate(zip(x.tolist(), y.tolist())))


def write_bonnmotion(out: TextIO, vehicles: int, steps: int) -> None:
    """Write a BonnMotion file with a waypoint every second, many more than usual for this format."""
    x, y = (np.stack(column, axis=1) for column in zip(*places(vehicles, steps)))
    for mine in zip(x.tolist(), y.tolist()):
        out.write(" ".join(f"{step} {a:.2f} {b:.2f}" for step, (a, b) in enumerate(zip(*mine))) + "\n")


def write_ns2(out: TextIO, vehicles: int, steps: int) -> None:
    """Write an ns-2 file with a setdest command for each vehicle every ten seconds."""
    for step, (x, y) in enumerate(places(vehicles, steps)):
        for i, (a, b) in enumerate(zip(x.tolist(), y.tolist())):
            if step == 0:
                out.write(f"$node_({i}) set X_ {a:.2f}\n$node_({i}) set Y_ {b:.2f}\n")
            elif step % 10 == 0:
                out.write(f'$ns_ at {step - 10}.0 "$node_({i}) setdest {a:.2f} {b:.2f} 13.0"\n')


def write_contacts(out: TextIO, vehicles: int, steps: int) -> None:
    """Write a contact list with as many contacts per round as there are vehicles."""
    rng = np.random.default_rng(0)
    out.write("round,i,j\n")
    for step in range(steps):
        i, away = rng.integers(0, vehicles, vehicles), rng.integers(1, vehicles, vehicles)
        out.writelines(f"{step},{a},{b}\n" for a, b in zip(i.tolist(), ((i + away) % vehicles).tolist()))


WRITERS: dict[str, tuple[str, Callable[[TextIO, int, int], None]]] = {
    "sumo": ("trace.xml", write_sumo),
    "csv": ("trace.csv", write_csv),
    "bonnmotion": ("trace.movements", write_bonnmotion),
    "ns2": ("trace.tcl", write_ns2),
    "contacts": ("contacts.csv", write_contacts),
}


def main() -> int:
    """Write and read a trace of each format, and report the measurements."""
    rows: list[dict[str, Any]] = []
    vehicles, steps = _VEHICLES.value, _STEPS.value
    for name in _FORMATS.value:
        file_name, write = WRITERS[name]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file_name
            with open(path, "w") as out:
                write(out, vehicles, steps)
            command = [sys.executable, "-c", READ, str(path), str(steps)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            row = json.loads(done.stdout)
            row["bytes_per_sample"] = (row["peak_mb"] - row["baseline_mb"]) * 2**20 / row["samples"]
            size = path.stat().st_size / 2**20
            rows.append({"variant": name, "vehicles": vehicles, "steps": steps, "file_mb": size, **row})
    measure.report("traces", rows)
    return 0


if __name__ == "__main__":
    common.run_command(main)
