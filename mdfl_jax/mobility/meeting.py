"""Movement by whom a client has met: DAM and DCM on the grid with `motion.knowledge=met`.

DAM and DCM know the places and label counts of all static clients from the first round. In MADFL (IV-A) mobile clients
collect them "through a warm-up phase", which the paper does not describe further. DADFL (VI) leaves it as future work.

Here this phase is part of the run. A mobile client knows the static clients that it has met: those within Rc of its
first place, or of a place where one of its moves ended. It first moves at random, until it has met the share
``warm_up_met`` of the static clients and at least one. (The minimum of one is our choice: a client that knows nobody
has nothing to move by.) From then on it moves as under DAM or DCM, but with the known static clients only. The static
clients that it meets on the way count from its next destination on. With a share of 1 the phase collects what MADFL's
phase does, and the movement after it is exactly DAM or DCM. With ``tell_met``, mobile clients within Rc of each other,
at their first places or after a move, also tell each other which static clients they know.

Rc is the network's radius. Radii of single clients and failing links affect the exchange of models, but not who is met.

There are two forms of one meaning, which draw the same numbers. Few clients are moved together, with arrays of all
clients and all grid points. Many clients (`is_many`) keep who knows whom as bits: one bit for each pair of a mobile and
a static client, so N / 32 words for each client. DCM, whose clients have centres of their own, keeps L / 32 words more.
No other array is larger than that.

The clients that choose a destination are then moved one by one, each on a piece of the grid. A client meets static
clients near its ways, so the clients that it knows often stand in a small piece of a large grid. Only there are label
counts and cluster centres not zero. Where the piece is too small, the whole grid takes its place.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import within
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.rng import per_client
from mdfl_jax.core.trees import where_rows
from mdfl_jax.mobility import grid
from mdfl_jax.mobility.clustering import centre_places, centres_of, cluster_centres_by_place
from mdfl_jax.mobility.discs import half_widths, over_near, standing, sums_in_range
from mdfl_jax.mobility.grid import (
    GridClient,
    GridWorld,
    grid_size,
    map_chunks,
    mobility_of,
    nearest_within,
    one_by_one,
    only_mobile,
    random_step,
    sample_index,
)
from mdfl_jax.mobility.label_distances import counts_of, distances, histograms, move_by_distribution, probabilities_of
from mdfl_jax.mobility.rule import Mobility

SIDE = 64  # rows and columns of the piece of the grid on which one of many clients chooses
_WORD = 32


def packed(mask: jax.Array) -> jax.Array:
    """Pack [..., n] bool into bits: [..., ceil(n / 32)] uint32, the first entry in the first word's lowest bit."""
    count = mask.shape[-1]
    words = -(-count // _WORD)
    full = jnp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, words * _WORD - count)])
    bits = full.reshape(*mask.shape[:-1], words, _WORD).astype(jnp.uint32)
    return jnp.sum(bits << jnp.arange(_WORD, dtype=jnp.uint32), axis=-1, dtype=jnp.uint32)


def unpacked(words: jax.Array, count: int) -> jax.Array:
    """Return the first ``count`` bits of words [..., W] as [..., count] bool.

    >>> unpacked(packed(jnp.arange(40) % 3 == 0), 40)[..., :7].tolist()
    [True, False, False, True, False, False, True]
    """
    bits = (words[..., None] >> jnp.arange(_WORD, dtype=jnp.uint32)) & 1
    return bits.reshape(*words.shape[:-1], -1)[..., :count] > 0


def num_bits(words: jax.Array) -> jax.Array:
    """Count the bits of words [..., W]: [...] int32."""
    return jnp.sum(jax.lax.population_count(words), axis=-1, dtype=jnp.int32)


def votes_of(words: jax.Array, voting: jax.Array, count: int) -> jax.Array:
    """Count for each bit of words [N, W] in how many of the rows [N] bool it is set: [count] int32."""
    of_bit = lambda bit: jnp.sum(((words >> bit) & 1) * voting[:, None], axis=0, dtype=jnp.int32)  # noqa: E731
    return jax.lax.map(of_bit, jnp.arange(_WORD, dtype=jnp.uint32)).T.reshape(-1)[:count]


class MetNumbers(Numbers):
    """The numbers of rules by which clients know those that they have met."""

    warm_up_met: float = number(0.5, "share of static clients to meet in random movement first", at_least=0, at_most=1)
    tell_met: bool = number(False, "mobile clients in range tell each other whom they met")


def met_enough(world: GridWorld, num_met: jax.Array) -> jax.Array:
    """Find the clients that have met enough static clients to end their warm-up.

    Without static clients everybody has met enough.

    Args:
      world: the grid world, which holds the number ``warm_up_met``.
      num_met: [N] int32, how many static clients each client knows.

    Returns:
      [N] bool, true where the warm-up is over.
    """
    num_static = jnp.sum(~world.is_mobile)
    share = world.numbers.warm_up_met * num_static * (1 - 1e-6)  # 0.2 * 15 must be 3, not slightly more
    return num_met >= jnp.maximum(share, jnp.minimum(num_static, 1))


class Centres(NamedTuple):
    """The cluster centres of the static clients that each client knows.

    Attributes:
      chosen: [N, L] bool, the centres as each client last computed them; for many clients, [N, L / 32] uint32 bits.
      stale: [N] bool, true where a client has met somebody new since then, or has never computed its centres.
      ties: data of the key that breaks random ties. All clients share it, so that clients that know the same static
        clients choose the same centres.
    """

    chosen: jax.Array
    stale: jax.Array
    ties: jax.Array


class Knowledge(NamedTuple):
    """The clients, and which static clients each of them knows.

    Attributes:
      clients: the clients, as under every rule of the grid.
      met: [N, N] bool, true where the mobile client i knows the static client j, false elsewhere; for many clients,
        [N, N / 32] uint32 bits.
      centres: the cluster centres, where these are the destinations; None where all grid points are.
    """

    clients: GridClient
    met: jax.Array
    centres: Centres | None


def is_many(world: GridWorld) -> bool:
    """Return whether what is known is kept as bits. Clients move alike either way."""
    num_clients = world.start.shape[0]
    return num_clients * max(num_clients, world.grid.shape[0]) > grid.LARGEST_AT_ONCE


def now_met(world: GridWorld, location: jax.Array, met: jax.Array) -> jax.Array:
    """Update which static clients each client knows, after the clients have arrived at their places.

    Args:
      world: the grid world, which holds the radius and the number ``tell_met``.
      location: [N] int32 places of the clients.
      met: [N, N] bool, who knew whom before.

    Returns:
      [N, N] bool, who knows whom now. Nothing is forgotten.
    """
    place = world.grid[location]
    near = within(place, place, world.radius) & world.is_mobile[:, None]  # static clients are at their first places
    met = met | (near & ~world.is_mobile[None, :])
    hears = near & world.is_mobile[None, :] & world.numbers.tell_met
    told = jnp.matmul(hears.astype(jnp.float32), met.astype(jnp.float32), precision="highest")
    return met | (told > 0)


def renewed(world: GridWorld, centres: Centres, met: jax.Array, choosing: jax.Array, impl: Any) -> Centres:
    """Compute the centres again for the clients that are about to choose a destination and have met somebody new.

    Args:
      world: the grid and the static clients.
      centres: the centres before.
      met: [N, N] bool, who knows whom.
      choosing: [N] bool, true for clients that are about to choose a destination. The others keep their old centres.
      impl: the kind of the random keys (`jax.random.key_impl`).

    Returns:
      The centres after the update.
    """
    due = centres.stale & choosing

    def find(old: jax.Array) -> jax.Array:
        ties = jax.random.wrap_key_data(centres.ties, impl=impl)
        return jnp.where(due[:, None], jax.vmap(partial(centres_of, world, ties))(met), old)

    # The search is a loop for each client, so it is skipped in rounds in which nobody needs it.
    chosen = jax.lax.cond(jnp.any(due), find, lambda old: old, centres.chosen)
    return centres._replace(chosen=chosen, stale=centres.stale & ~due)


def _move(
    key: jax.Array, client: GridClient, met: jax.Array, candidates: jax.Array, warm: jax.Array, world: GridWorld
) -> GridClient:
    """Move one client for one round. Informed and random movement draw their one random number from the same key."""
    informed = move_by_distribution(key, client, world, (counts_of(world, met), candidates))
    return jax.tree.map(partial(jnp.where, warm), informed, random_step(key, client, world))


def _step_of_few(key: jax.Array, world: GridWorld, state: Knowledge) -> Knowledge:
    """Move all clients for one round, all together."""
    clients, centres = state.clients, state.centres
    warm = met_enough(world, jnp.sum(state.met, axis=1))
    num_clients = world.start.shape[0]
    candidates = jnp.ones((num_clients, world.grid.shape[0]), bool)
    if centres is not None:
        choosing = warm & world.is_mobile & (clients.location == clients.destination)
        centres = renewed(world, centres, state.met, choosing, jax.random.key_impl(key))
        candidates = centres.chosen
    keys = per_client(key, num_clients)
    moved = jax.vmap(partial(_move, world=world))(keys, clients, state.met, candidates, warm)
    clients = only_mobile(world, clients, moved)
    met = now_met(world, clients.location, state.met)
    if centres is not None:
        centres = centres._replace(stale=centres.stale | jnp.any(met != state.met, axis=1))
    return Knowledge(clients, met, centres)


class Piece(NamedTuple):
    """A square piece of the grid.

    Attributes:
      corner: [2] int32, its first row and column.
      fits: [] bool, whether it holds the clients that are known and all points within the radius of them.
    """

    corner: jax.Array
    fits: jax.Array


def piece_around(world: GridWorld, known: jax.Array, side: int) -> Piece:
    """Find the piece of ``side`` rows and columns that begins before the known clients, [N] bool."""
    size = grid_size(world)
    reach = jnp.sum(half_widths(size, world.radius) >= 0, dtype=jnp.int32) - 1
    place = jnp.stack([world.start // size, world.start % size], axis=1)
    first = jnp.maximum(jnp.min(jnp.where(known[:, None], place, size), axis=0) - reach, 0)
    last = jnp.minimum(jnp.max(jnp.where(known[:, None], place, 0), axis=0) + reach, size - 1)
    corner = jnp.minimum(first, size - side)
    return Piece(corner, jnp.all(last < corner + side))


class View(NamedTuple):
    """What one client knows of the grid points.

    Attributes:
      distance: [L] float32, the distance of the label histogram at each point from the one at the client's place.
      centres: [L] bool, the cluster centres of the known clients; None where all points may be destinations.
    """

    distance: jax.Array
    centres: jax.Array | None


def _placed(values: jax.Array, whole: jax.Array, corner: jax.Array) -> jax.Array:
    return jax.lax.dynamic_update_slice(whole, values.reshape(-1, math.isqrt(values.size)), tuple(corner)).reshape(-1)


def view_of(
    world: GridWorld,
    client: GridClient,
    known: jax.Array,
    old: tuple[jax.Array, jax.Array, jax.Array] | None,
    corner: jax.Array,
    side: int,
) -> View:
    """Compute what one client knows of the grid points (MADFL eqs. 9 and 10, algorithm 3), on a piece of the grid.

    Args:
      world: the grid world.
      client: the client.
      known: [N] bool, the static clients that it knows.
      old: the key that breaks ties, the centres [L] bool that it last computed, and whether to compute them again;
        None where all points may be destinations.
      corner: [2] int32, the first row and column of the piece.
      side: rows and columns of the piece.

    Returns:
      What the client knows, of the whole grid.
    """
    size, own = grid_size(world), client.label_counts
    (order,) = jnp.nonzero(known, size=known.shape[0], fill_value=0)
    row, column = world.start // size - corner[0], world.start % size - corner[1]

    def add(k: jax.Array, at: jax.Array) -> jax.Array:
        i = order[k]
        return at.at[row[i], column[i]].add(jnp.append(world.label_counts[i], 1))

    at = jnp.zeros((side, side, own.shape[0] + 1), world.label_counts.dtype)
    at = jax.lax.fori_loop(0, jnp.sum(known), add, at)  # the counts and the number of the known clients at each point
    here = within(world.grid[client.location][None], world.grid[world.start], world.radius)[0] & known
    at_here = jnp.sum(jnp.where(here[:, None], world.label_counts, 0), axis=0)
    reference = histograms(at_here.astype(jnp.float32)[None], own)[0]
    near = sums_in_range(at[..., :-1], world.radius).reshape(side * side, -1).astype(jnp.float32)
    elsewhere = distances(histograms(jnp.zeros((1, own.shape[0]), jnp.float32), own), reference)
    distance = _placed(distances(histograms(near, own), reference), jnp.broadcast_to(elsewhere, (size, size)), corner)
    if old is None:
        return View(distance, None)
    ties, centres, is_due = old

    def find() -> jax.Array:
        found = cluster_centres_by_place(ties, at[..., -1], world.radius)
        return _placed(found, jnp.zeros((size, size), bool), corner)

    return View(distance, jax.lax.cond(is_due, find, lambda: centres))


def draw_destination(
    key: jax.Array,
    world: GridWorld,
    client: GridClient,
    known: jax.Array,
    old: tuple[jax.Array, jax.Array, jax.Array] | None = None,
) -> tuple[jax.Array, jax.Array | None]:
    """Draw the destination of one client (MADFL eqs. 11 and 13).

    Args:
      key: typed key of this client in this round.
      world, client, known, old: as for `view_of`.

    Returns:
      [] int32 the destination, which is the old one if there is no candidate, and the centres [L] bool or None.
    """
    points = world.grid.shape[0]
    size = math.isqrt(points)
    side = min(SIDE, size)
    piece, on = piece_around(world, known, side), partial(view_of, world, client, known, old)
    whole = lambda: on(jnp.zeros(2, jnp.int32), size)  # noqa: E731
    view = whole() if side == size else jax.lax.cond(piece.fits, lambda: on(piece.corner, side), whole)
    candidates = jnp.ones(points, bool) if view.centres is None else view.centres
    drawn = sample_index(key, probabilities_of(view.distance, candidates))
    return jnp.where(jnp.any(candidates), drawn, client.destination), view.centres


def now_met_by_bits(world: GridWorld, location: jax.Array, met: jax.Array) -> jax.Array:
    """Update which static clients each client knows, as `now_met` does.

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
        bit = jnp.where(is_there, jnp.uint32(1) << (other % _WORD).astype(jnp.uint32), jnp.uint32(0))
        return met.at[rows, other // _WORD].set(met[rows, other // _WORD] | bit, unique_indices=True)

    static = standing(world.start, ~mobile, points)
    met = over_near(note, met, static, location, mobile, size, world.radius)

    def hear(told: jax.Array, other: jax.Array, is_there: jax.Array) -> jax.Array:
        return told | jnp.where(is_there[:, None], met[other], jnp.uint32(0))

    hears = mobile & world.numbers.tell_met
    return over_near(hear, met, standing(location, mobile, points), location, hears, size, world.radius)


def _step_of_many(key: jax.Array, world: GridWorld, state: Knowledge) -> Knowledge:
    """Move all clients for one round. From the same key they move as few clients do."""
    clients, centres = state.clients, state.centres
    num_clients, points = world.start.shape[0], world.grid.shape[0]
    warm = met_enough(world, num_bits(state.met))
    keys = per_client(key, num_clients)
    due = world.is_mobile & warm & (clients.location == clients.destination)

    def go_on(key: jax.Array, client: GridClient, warm: jax.Array) -> GridClient:
        on = client._replace(location=nearest_within(world, client.location, client.destination))
        return jax.tree.map(lambda a, b: jnp.where(warm, a, b), on, random_step(key, client, world))

    moved = map_chunks(go_on, (keys, clients, warm), max(1, grid.LARGEST_AT_ONCE // math.isqrt(points)))
    begun = where_rows(world.is_mobile & ~due, moved, clients)

    def choose(_: jax.Array, key: jax.Array, met: jax.Array, row: tuple[GridClient, Any]) -> tuple[GridClient, Any]:
        client, own = row
        old = None
        if own is not None and centres is not None:
            ties = jax.random.wrap_key_data(centres.ties, impl=jax.random.key_impl(key))
            old = ties, unpacked(own[0], points), own[1]
        destination, chosen = draw_destination(key, world, client, unpacked(met, num_clients), old)
        location = nearest_within(world, client.location, destination)
        moved = client._replace(location=location, destination=destination)
        return moved, None if chosen is None else (packed(chosen), jnp.bool_(False))

    own = None if centres is None else (centres.chosen, centres.stale)
    clients, own = one_by_one(choose, (keys, state.met), (begun, own), due)
    met = now_met_by_bits(world, clients.location, state.met)
    if centres is not None:
        news = jnp.any(met != state.met, axis=1)
        centres = centres._replace(chosen=own[0], stale=own[1] | news)
    return Knowledge(clients, met, centres)


def met_mobility(by_centres: bool) -> Mobility:
    """Make DAM or DCM on the grid for clients that know those that they have met.

    Args:
      by_centres: whether destinations are the cluster centres of the known static clients (DCM) or all grid points
        (DAM).
    """

    def init(key: jax.Array, world: GridWorld) -> Knowledge:
        num_clients, points, as_bits = world.start.shape[0], world.grid.shape[0], is_many(world)

        def nobody(count: int) -> jax.Array:
            of_words = jnp.zeros((num_clients, -(-count // _WORD)), jnp.uint32)
            return of_words if as_bits else jnp.zeros((num_clients, count), bool)

        return Knowledge(
            clients=GridClient(location=world.start, destination=world.start, label_counts=world.label_counts),
            met=(now_met_by_bits if as_bits else now_met)(world, world.start, nobody(num_clients)),
            centres=Centres(nobody(points), jnp.ones(num_clients, bool), jax.random.key_data(key))
            if by_centres
            else None,
        )

    def step(key: jax.Array, world: GridWorld, state: Knowledge) -> Knowledge:
        return (_step_of_many if is_many(world) else _step_of_few)(key, world, state)

    def centres(world: GridWorld, state: Knowledge) -> jax.Array:
        assert state.centres is not None
        chosen, mobile = state.centres.chosen, world.is_mobile
        if is_many(world):
            return centre_places(world, votes_of(chosen, mobile, world.grid.shape[0]))
        return centre_places(world, jnp.sum(chosen & mobile[:, None], axis=0, dtype=jnp.int32))

    told = centres if by_centres else None
    return mobility_of(init, step, lambda state: state.clients, centres=told)
