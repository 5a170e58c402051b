"""Contact as neighbour lists, for numbers of clients whose N x N matrix would need too much memory.

Clients are sorted by the westernmost place of their path. The clients that a block of rows may be in contact with are
then one contiguous part of this order, and only this part is tested, one chunk at a time. The contacts of one block are
stored as bits, 32 clients in a word, and then read into lists. Memory is linear in N for a given ``max_degree``, except
for these bits (N / 32 words for each row of one block).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import squared_reach
from mdfl_jax.networks.contact import closest_of_rows, row_blocks, segments

BLOCK, CHUNK, WORD = 128, 512, 32


class Neighbours(NamedTuple):
    """The contacts of each client, as lists.

    Attributes:
      ids: [N, D] int32, the neighbours of each client in no particular order, padded with the client itself.
      present: [N, D] bool, true for the entries that are neighbours, false for padding.
      degree: [N] int32, the number of neighbours. If it is larger than D, the list holds D of them.
    """

    ids: jax.Array
    present: jax.Array
    degree: jax.Array


def _bit_at(word: jax.Array, rank: jax.Array) -> jax.Array:
    """Return the position of the rank-th set bit (from 0) of a word, by bisection. There must be more set bits."""
    position = jnp.zeros_like(rank)
    for half in (16, 8, 4, 2, 1):
        low = (word >> position.astype(jnp.uint32)) & jnp.uint32((1 << half) - 1)
        below = jax.lax.population_count(low).astype(rank.dtype)
        beyond = rank >= below
        rank, position = jnp.where(beyond, rank - below, rank), jnp.where(beyond, position + half, position)
    return position


def _read_out(words: jax.Array, max_degree: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Find the first D set bits in each row of words.

    Words [B, W] give the positions [B, D], whether each of these exists [B, D], and the number of set bits [B].
    """
    counts = jax.lax.population_count(words).astype(jnp.int32)
    ends = jnp.cumsum(counts, axis=1)
    rank = jnp.arange(max_degree)
    word = jax.vmap(lambda e: jnp.searchsorted(e, rank, side="right"))(ends)
    present = rank < ends[:, -1:]
    word = jnp.minimum(word, words.shape[1] - 1)
    before = jnp.take_along_axis(ends - counts, word, axis=1)
    bit = _bit_at(jnp.take_along_axis(words, word, axis=1), rank - before)
    return word * WORD + bit, present, ends[:, -1]


def swept_neighbours(times: jax.Array, points: jax.Array, radius: jax.Array | float, max_degree: int) -> Neighbours:
    """Compute the contacts of `mdfl_jax.networks.contact.swept` as neighbour lists.

    Args:
      times: [N, K], as in `swept`.
      points: [N, K, 2], as in `swept`.
      radius: one radius for all clients or [N].
      max_degree: D >= 1, the number of neighbours that a list can hold. ``degree`` is the true number, so it shows if a
        list is cut off.

    Returns:
      The neighbour lists of all clients.

    Raises:
      UserError: for a ``max_degree`` below 1.
    """
    if max_degree < 1:
        raise UserError(f"max_degree is {max_degree}; it must be at least 1")
    num_clients = times.shape[0]
    west, east = jnp.min(points[..., 0], axis=1), jnp.max(points[..., 0], axis=1)
    order = jnp.argsort(west)
    radii = jnp.broadcast_to(jnp.asarray(radius, points.dtype), (num_clients,))[order]
    west, east, ids = west[order], east[order], jnp.arange(num_clients, dtype=jnp.int32)
    farthest_east = jax.lax.cummax(east)
    pieces, used = segments(times[order], points[order])
    columns = row_blocks(pieces, CHUNK)
    column_radii, column_ids = row_blocks(radii, CHUNK), row_blocks(ids, CHUNK)
    # The last chunk is padded with copies of the last client. They get the id -1, so that they are in no contact.
    column_ids = jnp.where(jnp.arange(column_ids.size).reshape(column_ids.shape) < num_clients, column_ids, -1)

    def of_block(block: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array, jax.Array]:
        rows, row_radii, row_ids, row_west, row_east = block
        reach = jnp.max(row_radii) * 1.001 + 1e-3  # a margin for rounding errors of sums; candidates are tested exactly
        begin = jnp.searchsorted(farthest_east, jnp.min(row_west) - reach)
        end = jnp.searchsorted(west, jnp.max(row_east) + reach, side="right")

        def with_chunk(c: jax.Array, words: jax.Array) -> jax.Array:
            near = closest_of_rows(rows, columns[c], used)
            limit = squared_reach(jnp.minimum(row_radii[:, None], column_radii[c][None]), points.dtype)
            other = (column_ids[c] >= 0) & (row_ids[:, None] != column_ids[c])
            bits = ((near <= limit) & other).reshape(BLOCK, CHUNK // WORD, WORD).astype(jnp.uint32)
            packed = jnp.sum(bits << jnp.arange(WORD, dtype=jnp.uint32), axis=2, dtype=jnp.uint32)
            return jax.lax.dynamic_update_slice(words, packed, (jnp.int32(0), c * (CHUNK // WORD)))

        none = jnp.zeros((BLOCK, columns.shape[0] * (CHUNK // WORD)), jnp.uint32)
        first, last = begin // CHUNK, (end + CHUNK - 1) // CHUNK
        words = jax.lax.fori_loop(first.astype(jnp.int32), last.astype(jnp.int32), with_chunk, none)
        return _read_out(words, max_degree)

    blocks = [row_blocks(values, BLOCK) for values in (pieces, radii, ids, west, east)]
    position, present, degree = (
        found.reshape(-1, *found.shape[2:])[:num_clients] for found in jax.lax.map(of_block, tuple(blocks))
    )
    found_ids = jnp.where(present, order[jnp.minimum(position, num_clients - 1)], order[:, None]).astype(jnp.int32)
    back = jnp.argsort(order)
    return Neighbours(found_ids[back], present[back], degree[back])


def disc_neighbours(position: jax.Array, radius: jax.Array | float, max_degree: int) -> Neighbours:
    """Compute the contacts of `mdfl_jax.networks.contact.disc` as neighbour lists.

    Args:
      position: [N, 2] places, in the unit of the radius.
      radius: one radius for all clients or [N].
      max_degree: D, as in `swept_neighbours`.

    Returns:
      The neighbour lists of all clients.

    Raises:
      UserError: for a ``max_degree`` below 1.
    """
    return swept_neighbours(jnp.zeros((position.shape[0], 1), position.dtype), position[:, None], radius, max_degree)
