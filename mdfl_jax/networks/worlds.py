"""The worlds in which clients move, made from a network's numbers: who moves, and where relays stand.

Mobile clients are the first M clients, those with the most or the least data, or those nearest to or farthest from the
middle. The papers let the first M clients move. Data and places are drawn without regard to a client's number, so the
first M clients are a random choice.

Standing relays are clients without data that never move. The last K clients of a network may be relays. Relays exchange
models as all clients do, and have nothing to train on. Their places are drawn at random, as the places of all others,
or chosen from the same places, one relay after another:

- ``gaps``: farthest from all others that stand, so that a mobile client is seldom out of range of everybody (the greedy
  rule of Gonzalez, "Clustering to minimize the maximum intercluster distance", 1985);
- ``hubs``: in range of the most clients that are not yet in range of a relay (the greedy rule of maximum coverage);
- ``bridges``: in range of the most groups of clients that are not connected to each other; of such places, in range of
  the most clients.

A tie is broken at random.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import squared_distance, squared_reach
from mdfl_jax.core.links import ALL_PAIRS
from mdfl_jax.core.types import Clients
from mdfl_jax.metrics.values import components
from mdfl_jax.mobility.grid import GridWorld, grid_points
from mdfl_jax.mobility.plane import Motion, PlaneWorld, lattice
from mdfl_jax.mobility.registry import MOBILITIES, Movement
from mdfl_jax.mobility.rule import PROGRAMS, WORLDS, Form, WorldKind
from mdfl_jax.mobility.trace import ListWorld, on_circle

RELAY_PLACES = ("random", "gaps", "hubs", "bridges")
_LARGEST = 2**24  # places times clients
INTEGERS = ("boundary", "warm_up")
MOVERS = ("first", "most_data", "least_data", "most_central", "least_central")


def moving(choice: jax.Array, num_mobile: jax.Array, samples: jax.Array, place: jax.Array) -> jax.Array:
    """Choose the clients that move.

    Args:
      choice: [] int32, an index of `MOVERS`. A client is central if it is near the mean of all first places, since its
        mean squared distance from all clients is then smallest.
      num_mobile: [] int32, M.
      samples: [N] int32, the samples of each client.
      place: [N, D] float32, the first places.

    Returns:
      [N] bool, true for M clients. Of equal ones the first are taken.
    """
    outside = jnp.sum(jnp.square(place - jnp.mean(place, axis=0)), axis=1)
    data = samples.astype(outside.dtype)
    scores = jnp.stack([jnp.zeros_like(data), data, -data, -outside, outside])
    order = jnp.argsort(-scores[jnp.asarray(choice, jnp.int32)], stable=True)
    return jnp.zeros(len(samples), bool).at[order].set(jnp.arange(len(samples)) < num_mobile)


def places_of_relays(
    choice: jax.Array,
    key: jax.Array,
    place: jax.Array,
    stands: jax.Array,
    num_relays: int,
    candidates: jax.Array,
    radius: jax.Array,
) -> jax.Array:
    """Choose the places of relays, by a rule other than ``random``.

    Args:
      choice: [] int32, an index of `RELAY_PLACES`, from 1.
      key: typed key for equal places.
      place: [N - K, 2] float32, the first places of the other clients.
      stands: [N - K] bool, which of them do not move; those that move are not where they began, and do not count.
      num_relays: K >= 1.
      candidates: [P, 2] float32, the places that relays may have.
      radius: [] float32, the communication radius.

    Returns:
      [K] int32, indices of candidates.

    Raises:
      UserError: for more than `_LARGEST` places times clients.
    """
    count, points = place.shape[0] + num_relays, candidates.shape[0]
    if count * points > _LARGEST:
        raise UserError(
            f"network.relays is {num_relays}; with {count:,} clients and {points:,} places it must be 0: at most "
            f"{_LARGEST:,} places times clients are looked at"
        )
    everywhere = jnp.concatenate([place, jnp.zeros((num_relays, 2), place.dtype)])
    standing = jnp.concatenate([stands, jnp.zeros(num_relays, bool)])
    is_relay = jnp.arange(count) >= place.shape[0]
    reach = squared_reach(radius)

    def add(k: int, now: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        chosen, where, there = now
        away = squared_distance(candidates, where)
        near = (away <= reach) & there
        linked = (squared_distance(where, where) <= reach) & there & there[:, None]
        of_group = jax.nn.one_hot(components(linked, ALL_PAIRS), count)  # [N, N]
        served = jnp.any(linked & is_relay, axis=1)
        heard = jnp.sum(near, axis=1)
        joined = jnp.sum(near.astype(jnp.float32) @ of_group > 0, axis=1)
        scores = jnp.stack(
            [
                jnp.min(jnp.where(there, away, jnp.inf), axis=1),
                jnp.sum(near & ~served & ~is_relay, axis=1).astype(jnp.float32),
                joined + heard / (count + 1),
            ]
        )[choice - 1]
        ties = jax.random.uniform(jax.random.fold_in(key, k), (points,))
        best = jnp.argmax(jnp.where(scores == jnp.max(scores), ties, -1)).astype(jnp.int32)
        at = place.shape[0] + k
        return chosen.at[k].set(best), where.at[at].set(candidates[best]), there.at[at].set(True)

    return jax.lax.fori_loop(0, num_relays, add, (jnp.zeros(num_relays, jnp.int32), everywhere, standing))[0]


def world_of(movements: Iterable[Movement | Form]) -> WorldKind:
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


def typed_motion(motion: Motion) -> Motion:
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
    # Relays have a key of their own, so that their draws do not change those of the clients' places.
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
    motion = typed_motion(params.motion)
    size = jnp.stack([motion.width, motion.height])
    places = jax.random.uniform(key, (num_clients, 2)) * size
    if num_relays:
        candidates = lattice(size)
        chosen, taken = relays(places, mobile(places), candidates)
        places = places.at[owners:].set(jnp.where(taken, candidates[chosen], places[owners:]))
    return PlaneWorld(size=size, start=places, motion=motion, is_mobile=mobile(places), **shared)
