"""Contact as neighbour lists, for so many clients that an N x N matrix is too much.

Clients are sorted by how far west they come, so that whoever a block of them may meet stands in one stretch of that
order; only this stretch is tested, a chunk at a time. Who meets is kept as bits, 32 clients a word, of one block of
rows at a time, and read out into lists. Memory is linear in N for a given ``max_degree``, but for those bits
(N / 32 words a row of one block).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError
from mdfl_jax.geometry import squared_reach
from mdfl_jax.networks.contact import closest_of_rows, row_blocks, segments

BLOCK, CHUNK, WORD = 128, 512, 32


class Neighbours(NamedTuple):
    """Who meets whom, as lists.

    Attributes:
      ids: [N, D] int32 the neighbours of each client in no particular order, filled up with the client itself.
      present: [N, D] bool, which entries are neighbours.
      degree: [N] int32 how many neighbours there are; where that is more than D, the list holds D of them.
    """

    ids: jax.Array
    present: jax.Array
    degree: jax.Array


def _bit_at(word: jax.Array, rank: jax.Array) -> jax.Array:
    """Position of the rank-th set bit (from 0) of a word, by halving: rank < number of set bits."""
    position = jnp.zeros_like(rank)
    for half in (16, 8, 4, 2, 1):
        low = (word >> position.astype(jnp.uint32)) & jnp.uint32((1 << half) - 1)
        below = jax.lax.population_count(low).astype(rank.dtype)
        beyond = rank >= below
        rank, position = jnp.where(beyond, rank - below, rank), jnp.where(beyond, position + half, position)
    return position


def _read_out(words: jax.Array, max_degree: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Positions of the first set bits of each row of words: [B, W] -> [B, D] positions, [B, D] bool, [B] set bits."""
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
    """`mdfl_jax.networks.contact.swept` as neighbour lists.

    Args:
      times: [N, K].
      points: [N, K, 2].
      radius: one for all or [N].
      max_degree: D >= 1, neighbours that a list holds. Nothing is cut off silently: ``degree`` is the true number.

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
    # Copies of the last client fill the last chunk up; an id of their own kind keeps them from being met.
    column_ids = jnp.where(jnp.arange(column_ids.size).reshape(column_ids.shape) < num_clients, column_ids, -1)

    def of_block(block: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array, jax.Array]:
        rows, row_radii, row_ids, row_west, row_east = block
        reach = jnp.max(row_radii) * 1.001 + 1e-3  # room for the rounding of sums; candidates are tested exactly
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
    """`mdfl_jax.networks.contact.disc` as neighbour lists: paths that stand still.

    Args:
      position: [N, 2].
      radius: one for all or [N].
      max_degree: as `swept_neighbours`.

    Raises:
      UserError: for a ``max_degree`` below 1.
    """
    return swept_neighbours(jnp.zeros((position.shape[0], 1), position.dtype), position[:, None], radius, max_degree)
