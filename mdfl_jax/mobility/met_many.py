"""``dam_met`` and ``dcm_met`` for many clients: the same movement, with what is known as bits.

Who knows whom is inherently one bit for each pair of a mobile and a static client, and each client that moves to
cluster centres has its own. So this state has N / 32 words of a client, and L / 32 words more for ``dcm_met``. No other
array is larger than that. The clients that choose a destination are moved one by one, since each of them has counts of
its own.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.rng import per_client
from mdfl_jax.core.trees import where_rows
from mdfl_jax.mobility import many
from mdfl_jax.mobility.bits import WORD, num_bits, packed, unpacked
from mdfl_jax.mobility.discs import over_near, standing
from mdfl_jax.mobility.grid import GridClient, GridWorld, nearest_within
from mdfl_jax.mobility.meeting import Centres, Knowledge, met_enough
from mdfl_jax.mobility.met_draw import draw
from mdfl_jax.mobility.rules.random_movement import random_step


def now_met(world: GridWorld, location: jax.Array, met: jax.Array) -> jax.Array:
    """Update which static clients each client knows, as `mdfl_jax.mobility.met.now_met` does.

    Args:
      world: the grid world, which holds the radius and the number ``tell_met``.
      location: [N] int32 places of the clients.
      met: [N, N / 32] uint32, who knew whom before, as bits.

    Returns:
      [N, N / 32] uint32, who knows whom now.
    """
    points, rows = world.grid.shape[0], jnp.arange(location.shape[0])
    size, mobile = math.isqrt(points), world.is_mobile

    def note(met: jax.Array, other: jax.Array, is_there: jax.Array) -> jax.Array:
        bit = jnp.where(is_there, jnp.uint32(1) << (other % WORD).astype(jnp.uint32), jnp.uint32(0))
        return met.at[rows, other // WORD].set(met[rows, other // WORD] | bit, unique_indices=True)

    static = standing(world.start, ~mobile, points)
    met = over_near(note, met, static, location, mobile, size, world.radius)

    def hear(told: jax.Array, other: jax.Array, is_there: jax.Array) -> jax.Array:
        return told | jnp.where(is_there[:, None], met[other], jnp.uint32(0))

    hears = mobile & world.numbers.tell_met
    return over_near(hear, met, standing(location, mobile, points), location, hears, size, world.radius)


def init(key: jax.Array, world: GridWorld, by_centres: bool) -> Knowledge:
    """Make the state before the first round, with bits instead of the bools of `mdfl_jax.mobility.met`."""
    num_clients, points = world.start.shape[0], world.grid.shape[0]
    none = lambda count: jnp.zeros((num_clients, -(-count // WORD)), jnp.uint32)  # noqa: E731
    return Knowledge(
        clients=GridClient(location=world.start, destination=world.start, label_counts=world.label_counts),
        met=now_met(world, world.start, none(num_clients)),
        centres=Centres(none(points), jnp.ones(num_clients, bool), jax.random.key_data(key)) if by_centres else None,
    )


def step(key: jax.Array, world: GridWorld, state: Knowledge) -> Knowledge:
    """Move all clients for one round. From the same key they move as under `mdfl_jax.mobility.met`."""
    clients, centres = state.clients, state.centres
    num_clients, points = world.start.shape[0], world.grid.shape[0]
    warm = met_enough(world, num_bits(state.met))
    keys = per_client(key, num_clients)
    due = world.is_mobile & warm & (clients.location == clients.destination)

    def go_on(key: jax.Array, client: GridClient, warm: jax.Array) -> GridClient:
        on = client._replace(location=nearest_within(world, client.location, client.destination))
        return jax.tree.map(lambda a, b: jnp.where(warm, a, b), on, random_step(key, client, world))

    moved = many.in_chunks(go_on, (keys, clients, warm), max(1, many.LARGEST_AT_ONCE // math.isqrt(points)))
    begun = where_rows(world.is_mobile & ~due, moved, clients)

    def choose(_: jax.Array, key: jax.Array, met: jax.Array, row: tuple[GridClient, Any]) -> tuple[GridClient, Any]:
        client, own = row
        old = None
        if own is not None and centres is not None:
            ties = jax.random.wrap_key_data(centres.ties, impl=jax.random.key_impl(key))
            old = ties, unpacked(own[0], points), own[1]
        destination, chosen = draw(key, world, client, unpacked(met, num_clients), old)
        location = nearest_within(world, client.location, destination)
        moved = client._replace(location=location, destination=destination)
        return moved, None if chosen is None else (packed(chosen), jnp.bool_(False))

    own = None if centres is None else (centres.chosen, centres.stale)
    clients, own = many.one_by_one(choose, (keys, state.met), (begun, own), due)
    met = now_met(world, clients.location, state.met)
    if centres is not None:
        news = jnp.any(met != state.met, axis=1)
        centres = centres._replace(chosen=own[0], stale=own[1] | news)
    return Knowledge(clients, met, centres)
