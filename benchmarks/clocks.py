"""Time slots of clients with clocks: python -m benchmarks.throughput --suite=clocks

The gradients of a tenth of the clients beside those of all, in the settings of two round suites; and a round of 10,000
moving clients without clocks beside slots: with works of one slot, of ten slots, and with algorithms without rounds.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure
from benchmarks.rounds import HPARAMS, ROUNDS, images, model_of
from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS, numbers_of
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import make_model
from mdfl_jax.networks.costs import CostParams, Work
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.networks.wrappers.clocks import ClockParams, with_clocks
from mdfl_jax.tasks import classification

MANY, GRID, SAMPLES, BATCH = 10_000, 300, 20, 16
VARIANTS = {"dpsgd": (0, 1, 10), "adpsgd": (1, 10), "push_pull": (10,), "osgp": (10,), "swift": (10,)}
"""The slots of a work, by algorithm; 0: no clocks."""


def rows_of(calls: dict[str, Callable[[], Any]], first: str, **facts: Any) -> list[dict[str, Any]]:
    """Time calls in turns, and return a row for each with its ratio to one of them."""
    seconds = measure.interleaved(calls)
    whole = np.array(seconds[first])
    return [
        {
            "variant": name,
            "seconds_per_round": measure.spread(seconds[name]),
            "ratio": float(np.median(np.array(seconds[name]) / whole)),
            **facts,
        }
        for name in calls
    ]


def gradients(suite: str) -> list[dict[str, Any]]:
    """Time the gradients of all clients, without and with the argument ``only``, and those of a tenth of them."""
    setting = ROUNDS[suite]
    N, key = setting.num_clients, jax.random.key(0)
    data = images(300 * N, setting.side, setting.channels)
    task = classification(data, model_of(setting), N, "iid", batch_size=setting.batch)
    clients = jax.jit(task.partition)(task.data, HPARAMS.task, key)
    params = jax.jit(jax.vmap(lambda k: task.init(task.data, k)))(jax.random.split(key, N))
    some = jax.random.permutation(key, N) < N // 10
    asked = {"all": None, "all by only": jnp.ones(N, bool), "a tenth": some}
    of = lambda data, clients, params, key, only: task.gradient(data, clients, params, key, only=only)  # noqa: E731
    calls: dict[str, Callable[[], Any]] = {}
    for name, only in asked.items():
        given = (task.data, clients, params, key, only)
        calls[f"{suite}, {name}"] = partial(measure.compiled(of, *given)[0], *given)
    return rows_of(calls, f"{suite}, all")


def rounds() -> list[dict[str, Any]]:
    """Time a round, or a slot, of many moving clients."""
    task = classification(images(MANY * SAMPLES, 8), make_model("linear", 10), MANY, "iid", batch_size=BATCH)
    world, key = spatial(MANY, GRID, ("random_movement",), max_neighbours=23), jax.random.key(0)
    calls: dict[str, Callable[[], Any]] = {}
    for name, several in VARIANTS.items():
        algorithm = ALGORITHMS[name](Settings(sgd(momentum=False)))
        for slots in several:
            network, params = world, cast(Any, SpatialParams(MANY // 2))
            if slots:
                network = with_clocks(world, Work(1, BATCH), algorithm.traits.asynchronous)
                cost = CostParams(seconds_per_sample=slots / BATCH, round_seconds=1.0, speed_spread=0.5 * (slots > 1))
                params = ClockParams(params, cost)
            made = Simulation(task, network, algorithm, Schedule(1, 1, global_only=True))
            hparams = Hparams(HPARAMS.task, params, numbers_of(name, lr=0.01).typed())
            carry = jax.jit(made.first)(made.data, hparams, key)
            program, _ = measure.compiled(made.round, made.data, hparams, key, carry)
            for _ in range(40 * (slots > 1)):  # until about as many works end in each slot
                carry = program(made.data, hparams, key, carry)
            calls[f"{MANY:,} clients, {name}, {slots} slots"] = partial(program, made.data, hparams, key, carry)
    return rows_of(calls, f"{MANY:,} clients, dpsgd, 0 slots", num_clients=MANY)


def clocks_suite() -> list[dict[str, Any]]:
    """Return the rows of gradients and of rounds."""
    return [*gradients("mnist_round_100"), *gradients("digits_round"), *rounds()]
