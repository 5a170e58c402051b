"""Coverage: where the ground has not been in range for longest, discounted by the way. It knows nothing of the clients.

Reasoning: a client that knows neither places nor labels can still avoid where it has just been. The time since a place
was last in range is what the patrolling of robots calls its idleness (Machado, Ramalho, Zucker and Drogoul, Multi-agent
patrolling: an empirical analysis of alternative architectures, 2002). A place is worth the idleness of all grid points
in range of it, each to a power, divided for each round of the way. So a client sweeps the area instead of crossing it
at random as under ``waypoint``, which knows as little.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.geometry import within
from mdfl_jax.mobility.discs import sums_in_range
from mdfl_jax.mobility.grid import GridClient, GridWorld, grid_size, mobility_of, nearest_within, only_mobile
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility
from mdfl_jax.mobility.sight import rounds_of
from mdfl_jax.mobility.strategy import StrategyNumbers
from mdfl_jax.numbers import number
from mdfl_jax.rng import per_client

LONGEST = 255  # rounds; a place that was out of range for longer is as idle as this


class CoverageNumbers(StrategyNumbers):
    """The numbers of ``coverage``."""

    discount: float = number(0.5, "what a place's worth is multiplied by for each round of the way", above=0, at_most=1)
    impatience: float = number(2.0, "power of the time that a place was out of range", above=0, at_most=8)


class Swept(NamedTuple):
    """The clients, and how long each grid point has been out of each one's range.

    Attributes:
      clients: the clients, as under every rule of the grid.
      idle: [N, L] uint8, rounds since the point was last in range, at most `LONGEST`, which it also is before.
    """

    clients: GridClient
    idle: jax.Array


def worth(world: GridWorld, location: jax.Array, idle: jax.Array) -> jax.Array:
    """Returns what every grid point is worth to ONE client, [L].

    Args:
      world: the grid world, with the numbers of the rule.
      location: [] int32, the client's place.
      idle: [L] rounds since each grid point was last in range.
    """
    size = grid_size(world)
    values = (idle.astype(jnp.float32) ** world.numbers.impatience).reshape(size, size, 1)
    gain = sums_in_range(values, world.radius).reshape(-1)
    return gain * world.numbers.discount ** rounds_of(world.grid - world.grid[location], world.max_step)


@MOBILITIES.register("coverage", CoverageNumbers)
def coverage() -> Mobility:
    """Coverage: to where the grid has not been in range for longest, discounted by the way; no client is known."""

    def now_in_range(world: GridWorld, clients: GridClient, idle: jax.Array) -> jax.Array:
        near = jax.vmap(lambda place: within(world.grid[place][None], world.grid, world.radius)[0])
        return jnp.where(near(clients.location), 0, idle).astype(jnp.uint8)

    def init(key: jax.Array, world: GridWorld) -> Swept:
        clients = GridClient(location=world.start, destination=world.start, label_counts=world.label_counts)
        never = jnp.full((world.start.shape[0], world.grid.shape[0]), LONGEST, jnp.uint8)
        return Swept(clients, now_in_range(world, clients, never))

    def step(key: jax.Array, world: GridWorld, state: Swept) -> Swept:
        clients, keys = state.clients, per_client(key, world.start.shape[0])

        def choose(key: jax.Array, location: jax.Array, idle: jax.Array) -> jax.Array:
            score = worth(world, location, idle).at[location].set(-1.0)
            first = jnp.where(score == jnp.max(score), jax.random.uniform(key, score.shape), -1.0)
            return jnp.argmax(first).astype(jnp.int32)

        destination = jax.vmap(choose)(keys, clients.location, state.idle)
        location = jax.vmap(partial(nearest_within, world))(clients.location, destination)
        moved = only_mobile(world, clients, clients._replace(location=location, destination=destination))
        idle = jnp.minimum(state.idle, LONGEST - 1) + jnp.uint8(1)
        return Swept(moved, now_in_range(world, moved, idle))

    return mobility_of(init, step, lambda state: state.clients)
