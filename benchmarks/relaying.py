"""Time the slots of FedMobile: python -m benchmarks.throughput --suite=fedmobile

The suite times slots of LeNet against their gradients alone and least squares for 30 seeds in one program, and measures
the memory of 10,000 clients.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from benchmarks import measure
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.types import Hparams, Schedule, Task
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.engine.programs import Compiler, Placement
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import make_model
from mdfl_jax.networks.meetings import MeetingsParams, meetings
from mdfl_jax.tasks import LinearNumbers, classification, regression

SLOTS = 4  # per timed call
LARGE = 10_000


def _simulation(task: Task, name: str, schedule: Schedule) -> Simulation:
    network = meetings(task.num_clients, "fixed")
    return Simulation(task, network, ALGORITHMS[name](Settings(sgd(momentum=False))), schedule)


def _numbers(name: str, task: Any, lr: float) -> Hparams:
    return Hparams(task, MeetingsParams(), numbers_of(name, lr=np.float32(lr)))


def lenet_rows() -> list[dict[str, Any]]:
    """Time slots of ASYNC and FedMobile, and the same gradients alone: LeNet, 50 clients, batch 128, random images."""
    rng = np.random.default_rng(0)
    images = lambda n: rng.integers(0, 256, (n, 28, 28, 1)).astype(np.uint8)  # noqa: E731
    labels = lambda n: np.arange(n, dtype=np.int32) % 10  # noqa: E731
    data = Dataset("random", images(20_000), labels(20_000), images(100), labels(100), 10)
    task = classification(data, make_model("lenet", 10), 50, partition="iid", batch_size=128)
    hparams, key = _numbers("fedmobile", PartitionNumbers(), 0.1), jax.random.key(0)
    calls: dict[str, Callable[[], Any]] = {}
    for name in ("async_fl", "fedmobile"):
        simulation = _simulation(task, name, Schedule(SLOTS, SLOTS, global_only=True))
        carry = jax.jit(simulation.init)(task.data, hparams, key)[0]

        def slots(data: Any, carry: Any, simulation: Simulation = simulation) -> Any:
            one = lambda c, _: (simulation.round(data, hparams, key, c), None)  # noqa: E731
            return jax.lax.scan(one, carry, None, length=SLOTS)[0]

        calls[name] = partial(measure.compiled(slots, task.data, carry)[0], task.data, carry)
        clients, params = carry.clients, carry.algorithm.params

    def gradients(data: Any, clients: Any, params: Any) -> Any:
        def one(params: Any, key: jax.Array) -> Any:  # each step depends on the one before, as in a run
            return jax.tree.map(lambda p, g: p - 1e-3 * g, params, task.gradient(data, clients, params, key)[1]), None

        return jax.lax.scan(one, params, jax.random.split(key, SLOTS))[0]

    program = measure.compiled(gradients, task.data, clients, params)[0]
    calls["gradients alone"] = partial(program, task.data, clients, params)
    seconds_of = measure.interleaved(calls, repeats=5)
    rows = []
    for name, seconds in seconds_of.items():
        row: dict[str, Any] = {"variant": f"LeNet, {name}", "num_clients": 50}
        row["seconds_per_slot"] = measure.spread([s / SLOTS for s in seconds])
        row["ratio"] = float(np.median(np.divide(seconds, seconds_of["gradients alone"])))
        rows.append(row)
    return rows


def least_squares_row() -> dict[str, Any]:
    """Time least squares with 50 clients, 150 slots and 30 seeds in one program, with and without compiling."""
    task = regression("linear", 50, 200, 40, batch_size=128)
    placement = Placement(_simulation(task, "fedmobile", Schedule(150, 150, global_only=True)), 30)
    runs = placement.inputs([_numbers("fedmobile", LinearNumbers(truth_share=1.0), 0.01)] * 30, list(range(30)))
    begin = time.perf_counter()
    programs = Compiler().programs(placement, runs[0], runs[0])
    carry = programs.init(placement.data, runs)[0]
    jax.block_until_ready(programs.advance(placement.data, runs, carry))
    compiling = time.perf_counter() - begin
    carry = jax.block_until_ready(programs.init(placement.data, runs)[0])
    begin = time.perf_counter()
    jax.block_until_ready(programs.advance(placement.data, runs, carry))
    seconds = time.perf_counter() - begin
    return {"variant": "least squares, 30 seeds x 150 slots", "seconds": seconds, "with_compiling": compiling}


def large() -> None:
    """Run five slots of 10,000 clients and print the peak resident memory in MiB."""
    task = regression("linear", LARGE, 200, 40, batch_size=128)
    simulation = _simulation(task, "fedmobile", Schedule(5, 5, global_only=True))
    hparams, key = _numbers("fedmobile", LinearNumbers(truth_share=1.0), 0.01), jax.random.key(0)
    carry, _ = jax.jit(simulation.init)(task.data, hparams, key)
    jax.block_until_ready(jax.jit(simulation.advance, donate_argnums=3)(task.data, hparams, key, carry))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def fedmobile_suite() -> list[dict[str, Any]]:
    """Run all three parts. The memory is measured in a process of its own."""
    command = [sys.executable, "-c", "from benchmarks import relaying; relaying.large()"]
    peak = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    memory = {"variant": f"least squares, {LARGE} clients", "peak_mib": peak}
    return [*lenet_rows(), least_squares_row(), memory]
