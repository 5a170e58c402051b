"""Measure a round of many clients whose links are neighbour lists: python -m benchmarks.crowd [--vs=torch]

Minibatches of 16 of random images. The perceptron has 784 inputs (as for MNIST), the linear model 650 numbers (as for
the shipped digits). On the grid a quarter of the clients move at random, at the density of configs/digits.py, and meet
at the beginning of a round. In the plane all move, at one density, and meet on their way. Each row is measured in a
process of its own, so that its peak memory is that of the whole process. With --vs=torch a last row has the local steps
alone of 10,000 clients, one client after the other in PyTorch (the extra `bench`).
"""

import json
import resource
import subprocess
import sys
import time
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import flags

from benchmarks import measure
from benchmarks.rounds import images
from benchmarks.torch_rivals import Loop, Setting
from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import LocalNumbers, Settings, sgd
from mdfl_jax.cli import common
from mdfl_jax.core import devices
from mdfl_jax.core.numbers import Numbers
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.mobility.plane import Motion
from mdfl_jax.models import make_model
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.study.study import rounded
from mdfl_jax.tasks import classification

_ROW = flags.DEFINE_string("row", "", "Measure this row alone, in this process.")
_VS = flags.DEFINE_enum("vs", "none", ["none", "torch"], "Also measure the local steps in PyTorch.")

ROUNDS, BATCH, SAMPLES_EACH = 6, 16, 6
NEIGHBOURS = {"grid": 20, "plane": 90}  # the most of any round is less
SPACING, RADIUS, STEP = 100.0, 150.0, 10.0  # metres: 7 clients in range; seconds of movement in a round


class Crowd(NamedTuple):
    """What a row measures: the number of clients, their model, the side of the images, where they are, their links."""

    num_clients: int
    model: str
    side: int
    where: str = "grid"
    lists: bool = True


ROWS = {
    "mlp, N = 500, matrices": Crowd(500, "mlp", 28, lists=False),
    "mlp, N = 500": Crowd(500, "mlp", 28),
    "mlp, N = 1,000": Crowd(1_000, "mlp", 28),
    "mlp, N = 2,000": Crowd(2_000, "mlp", 28),
    "mlp, N = 2,000, matrices": Crowd(2_000, "mlp", 28, lists=False),
    "mlp, N = 10,000": Crowd(10_000, "mlp", 28),
    "mlp, N = 500, plane": Crowd(500, "mlp", 28, "plane"),
    "mlp, N = 500, plane, matrices": Crowd(500, "mlp", 28, "plane", lists=False),
    "mlp, N = 10,000, plane": Crowd(10_000, "mlp", 28, "plane"),
    "linear, N = 1,000, plane": Crowd(1_000, "linear", 8, "plane"),
    "linear, N = 10,000, plane": Crowd(10_000, "linear", 8, "plane"),
    "linear, N = 100,000, plane": Crowd(100_000, "linear", 8, "plane"),
    "linear, N = 100,000, ring": Crowd(100_000, "linear", 8, "ring"),
    "linear, N = 99,856, torus": Crowd(99_856, "linear", 8, "torus"),
}


def network_of(crowd: Crowd) -> tuple[Any, Any]:
    """Return the network of a row and its numbers."""
    if crowd.where not in NEIGHBOURS:
        return fixed_graph(crowd.num_clients, crowd.where, lists=crowd.lists), GraphParams()
    bound = rounded(NEIGHBOURS[crowd.where]) if crowd.lists else 0
    if crowd.where == "grid":
        side = round(18 * (crowd.num_clients / 20) ** 0.5)
        return spatial(crowd.num_clients, side, max_neighbours=bound), SpatialParams(np.int32(crowd.num_clients // 4))
    side = np.float32(SPACING * np.sqrt(crowd.num_clients))
    params = SpatialParams(np.int32(crowd.num_clients), np.float32(RADIUS), motion=Motion(side, side, np.float32(STEP)))
    return spatial(crowd.num_clients, mobility=("random_waypoint",), contact="swept", max_neighbours=bound), params


def row(name: str) -> dict[str, Any]:
    """Compile and run some rounds of a row; return its seconds and its memory."""
    crowd = ROWS[name]
    dataset = images(max(60_000, SAMPLES_EACH * crowd.num_clients), crowd.side)
    module = make_model(crowd.model, dataset.num_classes)
    task = classification(dataset, module, crowd.num_clients, partition="iid", batch_size=BATCH)
    network, params = network_of(crowd)
    simulation = Simulation(
        task, network, dpsgd(Settings(optimizer=sgd(None, momentum=False))), Schedule(ROUNDS, ROUNDS)
    )
    numbers, key = Hparams(Numbers(), params, LocalNumbers(lr=0.1).typed()), jax.random.key(0)
    carry = jax.jit(lambda data, key: simulation.init(data, numbers, key)[0])(simulation.data, key)
    jax.block_until_ready(carry)
    begin = time.perf_counter()
    # The state that goes in is not needed any more, so the one that comes out may take its memory.
    advance: Any = jax.jit(simulation.round, donate_argnums=3)
    program = advance.lower(simulation.data, numbers, key, carry).compile(devices.compiler_options())
    compiled, seconds = time.perf_counter() - begin, []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        carry = jax.block_until_ready(program(simulation.data, numbers, key, carry))
        seconds.append(time.perf_counter() - begin)
    memory = program.memory_analysis()
    found: dict[str, Any] = {"variant": name, "num_clients": crowd.num_clients, "num_params": simulation.num_params}
    found |= {"seconds_per_round": measure.spread(seconds[1:]), "compile_seconds": compiled}
    found |= {"milliseconds_per_client": 1e3 * float(np.median(seconds[1:])) / crowd.num_clients}
    found |= {"state_bytes_per_client": memory.output_size_in_bytes / crowd.num_clients}
    found |= {"temporary_bytes_per_client": memory.temp_size_in_bytes / crowd.num_clients}
    found |= {"peak_resident_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10}
    if network.lists and network.lists.needed:
        found |= {"places": network.lists.bound, "places_needed": int(network.lists.needed(carry.network))}
    return found


def torch_row() -> dict[str, Any]:
    """Take the local steps of 10,000 perceptrons in PyTorch, one client after the other."""
    loop = Loop(Setting(10_000, BATCH, 1, 28, 1, "mlp", (16, 32), 0, 0), range(10_000), samples=SAMPLES_EACH)
    seconds = measure.interleaved({"loop": loop.train}, ROUNDS - 1)["loop"]
    name, each = "mlp, N = 10,000, PyTorch, local steps alone", 1e3 * float(np.median(seconds)) / 10_000
    return {"variant": name, "seconds_per_round": measure.spread(seconds), "milliseconds_per_client": each}


def main() -> int:
    """Measure all rows, each in a process of its own, and write results/crowd-<platform>.json."""
    common.setup_jax("")
    if _ROW.value:
        print(json.dumps(row(_ROW.value)))
        return 0
    rows = []
    for name in ROWS:
        command = [sys.executable, "-m", "benchmarks.crowd", f"--row={name}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(json.dumps(rows[-1]), flush=True)
    if _VS.value == "torch":
        rows.append(torch_row())
    measure.report("crowd", rows)
    return 0


if __name__ == "__main__":
    common.run_command(main)
