"""Movement on a large grid and partitions, for ten thousand clients: seconds, and the memory that the compiler reports.

The parts of a suite of benchmarks.throughput (--suite=many_clients). Three quarters of the clients are static. In the
first step of a rule of the grid all mobile clients draw a destination, later only those that have arrived.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure
from mdfl_jax.data.batching import index_clients
from mdfl_jax.data.partition import PARTITIONS, PartitionSettings
from mdfl_jax.mobility import MOBILITIES, Movement, rule_numbers
from mdfl_jax.mobility.grid import GridWorld, grid_points
from mdfl_jax.mobility.rule import MET

NUM_CLIENTS, NUM_MOBILE, SIZE, CLASSES = 10_000, 2_500, 200, 10
SAMPLES, OWNERS, REPEATS, LATER = 60_000, 20_000, 3, 5
RULES = [Movement(rule) for rule in ("static", "random_movement", "dam", "dcm")]
RULES += [Movement(rule, MET) for rule in ("dam", "dcm")]


def mib(program: Any) -> float:
    """Return the temporary memory of a compiled program, in MiB."""
    return program.memory_analysis().temp_size_in_bytes / 2**20


def movement(moves: Movement) -> dict[str, Any]:
    """Time the start, the first step and some later steps of a rule of the grid."""
    key = jax.random.key(0)
    counts = jax.random.multinomial(key, jnp.float32(SAMPLES // NUM_CLIENTS), jnp.full((NUM_CLIENTS, CLASSES), 0.1))
    world = GridWorld(
        grid=grid_points(SIZE),
        start=jax.random.randint(key, (NUM_CLIENTS,), 0, SIZE * SIZE, jnp.int32),
        is_mobile=jnp.arange(NUM_CLIENTS) < NUM_MOBILE,
        label_counts=counts.astype(jnp.int32),
        radius=jnp.float32(3.0),
        max_step=jnp.float32(5.0),
        numbers=rule_numbers((moves,), warm_up_met=0.0)[0].typed(),
    )
    rule = MOBILITIES.form(moves).make()
    init, of_init = measure.compiled(rule.init, key, world)
    start = init(key, world)
    step, of_step = measure.compiled(rule.step, key, world, start)
    first = measure.interleaved({"init": partial(init, key, world), "first": partial(step, key, world, start)}, REPEATS)
    state = step(key, world, start)
    for r in range(LATER):
        state = step(jax.random.key(r), world, state)
    later = measure.interleaved({"later": partial(step, jax.random.key(LATER), world, state)}, REPEATS)
    row: dict[str, Any] = {
        "variant": str(moves),
        "num_clients": NUM_CLIENTS,
        "num_mobile": NUM_MOBILE,
        "grid_size": SIZE,
    }
    row |= {f"{part}_seconds": measure.spread(s) for part, s in (first | later).items()}
    row |= {"compile_seconds": of_init + of_step, "temporary_mib": max(mib(init), mib(step))}
    return row


def partition(name: str) -> dict[str, Any]:
    """Time a partition with its index of samples, and count what the clients hold."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(SAMPLES) % CLASSES).astype(np.int32)
    places, owner_of = rng.random((NUM_CLIENTS, 2)).astype(np.float32), rng.integers(0, OWNERS, SAMPLES, np.int32)
    given = PARTITIONS.numbers(name)
    table = rng.integers(0, NUM_CLIENTS, SAMPLES).astype(np.float32)

    def divide(key: jax.Array, labels: jax.Array, places: jax.Array, owner_of: jax.Array, table: jax.Array) -> Any:
        numbers = given(table=table) if name == "table" else given().typed()  # type: ignore[call-arg]
        settings = PartitionSettings(NUM_CLIENTS, CLASSES, numbers, owner_of, OWNERS, places)
        owner = PARTITIONS[name](key, labels, settings)
        return index_clients(owner, labels, NUM_CLIENTS, CLASSES)

    args = (jax.random.key(0), labels, places, owner_of, table)
    program, compile_seconds = measure.compiled(divide, *args)
    (seconds,) = measure.interleaved({name: partial(program, *args)}, REPEATS).values()
    sizes = np.asarray(program(*args).num_samples)
    row: dict[str, Any] = {"variant": f"partition {name}", "num_clients": NUM_CLIENTS, "samples": SAMPLES}
    row |= {"seconds": measure.spread(seconds), "compile_seconds": compile_seconds, "temporary_mib": mib(program)}
    return row | {"largest": int(sizes.max()), "empty": int((sizes == 0).sum())}


def many_clients_suite() -> list[dict[str, Any]]:
    """Time every rule of the grid and every partition."""
    return [*map(movement, RULES), *map(partition, PARTITIONS)]
