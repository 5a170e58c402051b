"""The draw of ONE client's destination from the static clients that it has met, on the piece of the grid around these.

A client meets static clients near its ways, so those that it knows often stand in a small piece of a large grid. Label
counts and cluster centres differ from nothing only there. Where the piece is too small, the whole grid takes its place.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import within
from mdfl_jax.mobility.clustering import cluster_centres_by_place
from mdfl_jax.mobility.discs import half_widths, sums_in_range
from mdfl_jax.mobility.grid import GridClient, GridWorld, sample_index
from mdfl_jax.mobility.label_histograms import distances, histograms
from mdfl_jax.mobility.rules.distribution_aware import probabilities_of

SIDE = 64  # rows and columns of the piece


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
    size = math.isqrt(world.grid.shape[0])
    reach = jnp.sum(half_widths(size, world.radius) >= 0, dtype=jnp.int32) - 1
    place = jnp.stack([world.start // size, world.start % size], axis=1)
    first = jnp.maximum(jnp.min(jnp.where(known[:, None], place, size), axis=0) - reach, 0)
    last = jnp.minimum(jnp.max(jnp.where(known[:, None], place, 0), axis=0) + reach, size - 1)
    corner = jnp.minimum(first, size - side)
    return Piece(corner, jnp.all(last < corner + side))


class Sight(NamedTuple):
    """What one client knows of the grid points.

    Attributes:
      distance: [L] float32, the distance of the label histogram at each point from the one at the client's place.
      centres: [L] bool, the cluster centres of the known clients; None where all points may be destinations.
    """

    distance: jax.Array
    centres: jax.Array | None


def _placed(values: jax.Array, whole: jax.Array, corner: jax.Array) -> jax.Array:
    return jax.lax.dynamic_update_slice(whole, values.reshape(-1, math.isqrt(values.size)), tuple(corner)).reshape(-1)


def look(
    world: GridWorld,
    client: GridClient,
    known: jax.Array,
    old: tuple[jax.Array, jax.Array, jax.Array] | None,
    corner: jax.Array,
    side: int,
) -> Sight:
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
    size, own = math.isqrt(world.grid.shape[0]), client.label_counts
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
        return Sight(distance, None)
    ties, centres, is_due = old

    def find() -> jax.Array:
        found = cluster_centres_by_place(ties, at[..., -1], world.radius)
        return _placed(found, jnp.zeros((size, size), bool), corner)

    return Sight(distance, jax.lax.cond(is_due, find, lambda: centres))


def draw(
    key: jax.Array,
    world: GridWorld,
    client: GridClient,
    known: jax.Array,
    old: tuple[jax.Array, jax.Array, jax.Array] | None = None,
) -> tuple[jax.Array, jax.Array | None]:
    """Draw the destination of one client (MADFL eqs. 11 and 13).

    Args:
      key: typed key of this client in this round.
      world, client, known, old: as for `look`.

    Returns:
      [] int32 the destination, which is the old one if there is no candidate, and the centres [L] bool or None.
    """
    points = world.grid.shape[0]
    size = math.isqrt(points)
    side = min(SIDE, size)
    piece, on = piece_around(world, known, side), partial(look, world, client, known, old)
    whole = lambda: on(jnp.zeros(2, jnp.int32), size)  # noqa: E731
    sight = whole() if side == size else jax.lax.cond(piece.fits, lambda: on(piece.corner, side), whole)
    candidates = jnp.ones(points, bool) if sight.centres is None else sight.centres
    drawn = sample_index(key, probabilities_of(sight.distance, candidates))
    return jnp.where(jnp.any(candidates), drawn, client.destination), sight.centres
