"""Measure how the cost of a round grows with the number of clients and the model: python -m benchmarks.scaling

The rounds are those of digits_round (batch 64, CNN 3x3x16, 3x3x32, 64), with N from 10 to 1,000 over all devices, and
with models up to four times as wide. The rows include the temporary memory that the compiler reports.
"""

from typing import Any

import numpy as np
from absl import flags

from benchmarks import measure
from benchmarks.rounds import ROUNDS, prepare, simulation, useful_flops
from mdfl_jax.cli import common
from mdfl_jax.core import sharding

_LARGEST = flags.DEFINE_integer("largest", 1000, "Largest number of clients.", lower_bound=10)


def main() -> int:
    """Time the rounds and write results/scaling-<platform>.json."""
    common.setup_jax("")
    base, mesh = ROUNDS["digits_round"], sharding.client_mesh()
    counts = [n for n in (10, 20, 50, 100, 200, 500, 1000) if n <= _LARGEST.value]
    settings = {f"N = {n}": base._replace(num_clients=n) for n in counts}
    settings |= {f"N = 20, widths {w}": base._replace(widths=w) for w in ((32, 64), (64, 128))}
    rows = []
    for name, setting in settings.items():
        ours = prepare(simulation(setting, mesh))
        seconds = measure.interleaved({name: ours.call})[name]
        median = float(np.median(seconds))
        row: dict[str, Any] = {"variant": name, "seconds_per_round": measure.spread(seconds)}
        row |= {"num_clients": setting.num_clients, "num_params": ours.simulation.num_params}
        row |= {"microseconds_per_client": 1e6 * median / setting.num_clients, "compile_seconds": ours.compile_seconds}
        row |= {"gflop_per_second": useful_flops(setting) / median / 1e9}
        row |= {"temporary_mib_a_device": ours.memory.temp_size_in_bytes / 2**20}
        rows.append(row)
    measure.report("scaling", rows)
    return 0


if __name__ == "__main__":
    common.run_command(main)
