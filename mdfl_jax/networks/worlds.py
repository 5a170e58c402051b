"""Construction of the worlds in which mobility rules live, from a network's numbers."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.types import Clients
from mdfl_jax.mobility.contact_list import ListWorld, on_circle
from mdfl_jax.mobility.grid import GridWorld, grid_points
from mdfl_jax.mobility.plane import Motion, PlaneWorld, lattice
from mdfl_jax.mobility.registry import MOBILITIES, Movement
from mdfl_jax.mobility.rule import PROGRAMS, WORLDS, WorldKind
from mdfl_jax.networks.movers import moving
from mdfl_jax.networks.relays import places_of_relays

INTEGERS = ("boundary", "warm_up")


def world_of(movements: Iterable[Movement]) -> WorldKind:
    """Return the world in which all the given movements take place; a trace moves clients in the plane.

    Raises:
      UserError: if they take place in more than one world, or if there is no movement.
    """
    worlds = {movement: MOBILITIES.form(movement).world for movement in movements}
    if not worlds:
        raise UserError(f"mobility is empty; it must name one rule or more of {', '.join(MOBILITIES)}")
    kinds = {PROGRAMS[world] for world in worlds.values()}
    if len(kinds) > 1:
        lives = ", ".join(f"{movement.rule} in the {WORLDS[world]}" for movement, world in worlds.items())
        raise UserError(f"the mobility rules of one network must live in one world: {lives}")
    return kinds.pop()


def typed(motion: Motion) -> Motion:
    """Return the numbers of the plane as arrays of fixed types: int32 for `INTEGERS`, else float32."""
    return Motion(
        **{
            name: jnp.asarray(value, jnp.int32 if name in INTEGERS else jnp.float32)
            for name, value in motion._asdict().items()
        }
    )


def _mobile(params: Any, clients: Clients, owners: int, place: jax.Array) -> jax.Array:
    """Return which clients move, [N]: of the first ``owners``, those that ``params.movers`` chooses."""
    chosen = moving(params.movers, params.num_mobile, jnp.sum(clients.label_counts, axis=1)[:owners], place[:owners])
    return jnp.pad(chosen, (0, place.shape[0] - owners))


def _relays(
    params: Any,
    key: jax.Array,
    num_relays: int,
    radius: jax.Array,
    place: jax.Array,
    mobile: jax.Array,
    candidates: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the candidates [K] that are chosen for relays, and whether they are taken: not if places are random."""
    rule, owners = jnp.asarray(params.relay_places, jnp.int32), place.shape[0] - num_relays
    stands = ~mobile[:owners]
    chosen = places_of_relays(jnp.maximum(rule, 1), key, place[:owners], stands, num_relays, candidates, radius)
    return chosen, rule > 0


def make_world(
    kind: WorldKind,
    params: Any,
    key: jax.Array,
    clients: Clients,
    num_clients: int,
    grid_size: int,
    num_relays: int = 0,
) -> GridWorld | PlaneWorld | ListWorld:
    """Make the world before the first round.

    On the grid and in the plane the clients' places are uniform, but those of relays may be chosen. In the world of a
    contact list they are on a circle.

    Args:
      kind: the world, as `world_of` returns it.
      params: the network's `mdfl_jax.networks.spatial.SpatialParams`.
      key: typed key from which the places are drawn.
      clients: what data each client holds.
      num_clients: N.
      grid_size: G, used on the grid only.
      num_relays: K, the last clients, which never move.

    Returns:
      The world.

    Raises:
      UserError: if there are too many clients and places to choose the places of relays.
    """
    if kind == "contacts":
        return on_circle(num_clients)
    shared: dict[str, Any] = {
        "label_counts": clients.label_counts,
        "radius": jnp.max(jnp.asarray(params.radius, jnp.float32)),
    }

    owners = num_clients - num_relays
    mobile = partial(_mobile, params, clients, owners)
    relays = partial(_relays, params, jax.random.fold_in(key, 1), num_relays, shared["radius"])
    if kind == "grid":
        grid = grid_points(grid_size)
        start = jax.random.randint(key, (num_clients,), 0, grid.shape[0], jnp.int32)
        if num_relays:
            chosen, taken = relays(grid[start], mobile(grid[start]), grid)
            start = start.at[owners:].set(jnp.where(taken, chosen, start[owners:]))
        return GridWorld(
            grid=grid,
            start=start,
            is_mobile=mobile(grid[start]),
            max_step=jnp.asarray(params.max_step, jnp.float32),
            **shared,
        )
    motion = typed(params.motion)
    size = jnp.stack([motion.width, motion.height])
    places = jax.random.uniform(key, (num_clients, 2)) * size
    if num_relays:
        candidates = lattice(size)
        chosen, taken = relays(places, mobile(places), candidates)
        places = places.at[owners:].set(jnp.where(taken, candidates[chosen], places[owners:]))
    return PlaneWorld(size=size, start=places, motion=motion, is_mobile=mobile(places), **shared)
