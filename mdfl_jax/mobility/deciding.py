"""How clients decide under a strategy, on the grid and in the plane: who is due, what they see, what they remember."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import within
from mdfl_jax.core.rng import per_client
from mdfl_jax.mobility.grid import GridWorld
from mdfl_jax.mobility.meeting import met_enough
from mdfl_jax.mobility.sight import NEVER, Memory, Sight, Sites, look

Choose = Callable[[jax.Array, Sight], jax.Array]
Prepare = Callable[[jax.Array, GridWorld, Sites], Any]


def now_near(world: GridWorld, location: jax.Array, last: jax.Array, now: jax.Array, tells: jax.Array) -> jax.Array:
    """Update when each client was last in range of each static client, [N, N]."""
    place = world.grid[location]
    near = within(place, place, world.radius) & world.is_mobile[:, None]  # static clients are at their first places
    last = jnp.where(near & ~world.is_mobile, now, last)
    told = lambda row: jnp.max(jnp.where((row & world.is_mobile)[:, None], last, NEVER), axis=0)  # noqa: E731
    return jax.lax.cond(tells, lambda: jnp.maximum(last, jax.lax.map(told, near)), lambda: last)


def compared(memory: Memory, heard: jax.Array, differences: jax.Array) -> Memory:
    """Remember how much models differed, where clients heard each other."""
    assert memory.differs is not None
    return memory._replace(differs=jnp.where(heard, differences, memory.differs))


def destinations(
    key: jax.Array,
    world: GridWorld,
    memory: Memory,
    arrived: jax.Array,
    choose: Choose,
    find: Callable[[GridWorld, jax.Array, jax.Array], Sites],
    at_random: Callable[[jax.Array, jax.Array], jax.Array],
    oracle: bool,
    at_once: bool,
    replans: bool,
) -> jax.Array:
    """Let the clients that are due choose, one after the other in the order of their numbers.

    Args:
      key: typed key of the round.
      world: the world that clients look at.
      memory: what they remember, with the indices of their destinations.
      arrived: [N] bool, which clients are at their destinations.
      choose, oracle, replans: as of `strategy_mobility`.
      find: (world, key of ties, known clients [N]) -> candidates.
      at_random: (key, index of a client) -> index of a point, for a client that has not met enough others.
      at_once: whether clients choose from the first round on.

    Returns:
      [N] int32 indices of the points for which the clients are heading.
    """
    before, keys = memory.clients.destination, per_client(key, world.start.shape[0])
    ties = jax.random.wrap_key_data(memory.ties, impl=jax.random.key_impl(key))
    met = (memory.last != NEVER) & ~world.is_mobile
    warm = jnp.full(world.start.shape[:1], True) if at_once else met_enough(world, jnp.sum(met, axis=1))
    due = world.is_mobile & (~warm | replans | arrived)
    (order,) = jnp.nonzero(due, size=due.shape[0], fill_value=0)

    def choice(i: jax.Array, destination: jax.Array) -> jax.Array:
        known = ~world.is_mobile if oracle else met[i]
        sites = memory.sites if memory.sites is not None else find(world, ties, known)
        chosen = sites.place[choose(keys[i], look(world, memory, i, destination, sites, known))]
        return jnp.where(jnp.any(sites.valid), chosen, destination[i])

    def anywhere(i: jax.Array, destination: jax.Array) -> jax.Array:
        return at_random(keys[i], i)

    def set_out(k: jax.Array, destination: jax.Array) -> jax.Array:
        i = order[k].astype(jnp.int32)
        place = choice(i, destination) if oracle else jax.lax.cond(warm[i], choice, anywhere, i, destination)
        return destination.at[i].set(place)

    return jax.lax.fori_loop(0, jnp.sum(due), set_out, before)
