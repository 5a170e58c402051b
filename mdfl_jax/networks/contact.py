"""Contact: which clients are in each other's radio range, at one instant, at any time of a movement, and for how long.

A movement is piecewise linear: client i is at ``points[i, k]`` at the time ``times[i, k]`` and moves straight to the
next of these places. While two segments overlap in time, the squared distance of two clients is a quadratic function of
time, whose smallest value on an interval is known in closed form. The smallest value over all pairs of segments is the
smallest squared distance of the movement.

Two clients are in contact between the two times at which this function equals the squared radius. So the duration of a
contact is exact, and time is not sampled. `contacts` of a round are matrices, or neighbour lists where an N x N matrix
would need too much memory.

Neighbour lists: clients are sorted by the westernmost place of their path. The clients that a block of rows may be in
contact with are then one contiguous part of this order, and only this part is tested, one chunk at a time. The contacts
of one block are stored as bits, 32 clients in a word, and then read into lists. Memory is linear in N for a given
``max_degree``, except for these bits (N / 32 words for each row of one block).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import squared_distance, squared_reach, within
from mdfl_jax.core.links import ALL_PAIRS, Senders, as_senders, from_pairs, heard_from, in_use
from mdfl_jax.core.types import Channel, Extra, Links
from mdfl_jax.mobility.rule import Path
from mdfl_jax.mobility.trace import check_at_end
from mdfl_jax.traces.trace import ContactTable

CONTACTS = ("disc", "swept")
# Rows of the matrix that are computed at a time. The intermediate results then stay in the cache, which is five times
# faster than all rows at once.
_ROWS = 64
BLOCK, CHUNK, WORD = 128, 512, 32  # of neighbour lists: rows, columns that are tested at a time, and bits of a word
Pair = tuple[jax.Array, jax.Array]


def pair_radius(radius: jax.Array | float) -> jax.Array:
    """Compute the distance within which two clients hear each other: the smaller of their radii.

    Args:
      radius: one radius for all clients, [N], or one of each pair [N, N].

    Returns:
      [] for one radius, else [N, N].
    """
    radius = jnp.asarray(radius)
    return jnp.minimum(radius[:, None], radius[None, :]) if radius.ndim == 1 else radius


def link_radius(radius: jax.Array | float, senders: Senders, num_clients: int) -> jax.Array:
    """Compute for each link the distance within which its two clients hear each other, as `pair_radius`: [N, K].

    A radius of each link [N, K] is returned as it is.
    """
    radius = jnp.asarray(radius)
    if radius.ndim == 2:
        return radius
    radii = jnp.broadcast_to(radius, (num_clients,))
    return jnp.minimum(radii[:, None], senders.of(radii))


def disc(position: jax.Array, radius: jax.Array | float) -> jax.Array:
    """Find the clients that are within a radius of each other (MADFL II-A).

    Args:
      position: [N, 2] places, in the unit of the radius.
      radius: communication radius Rc, one for all clients or [N]. Two clients with unequal radii hear each other within
        the smaller one. ``inf`` connects all clients.

    Returns:
      adjacency: [N, N] bool, symmetric, without self loops.

    >>> place = jnp.array([[0.0, 0.0], [3.0, 4.0], [9.0, 0.0]])
    >>> disc(place, 5.0).astype(int).tolist()
    [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    """
    return within(position, position, pair_radius(radius)) & ~jnp.eye(position.shape[0], dtype=bool)


def segments(times: jax.Array, points: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cut paths into straight pieces, in the layout that `closest_on` takes.

    Args:
      times: [N, K] non-decreasing.
      points: [N, K, 2] places at these times.

    Returns:
      pieces: [max(K - 1, 1), 6, N]. The six values are the begin time, the end time, the place at the beginning (x, y)
        and the velocity (x, y). A piece without duration, which is padding or a jump, stands still at its beginning.
      used: [] int32, the number of leading pieces that hold all movement, at least one. No path moves after them.
    """
    if times.shape[1] == 1:  # a path of one place: the client stays there until time 1
        times, points = jnp.repeat(times, 2, axis=1).at[:, 1].set(1), jnp.repeat(points, 2, axis=1)
    times, points = times.T, jnp.moveaxis(points, 0, -1)  # clients are the last axis, which the inner loops run over
    begin, end = times[:-1], times[1:]
    lasts = end > begin
    velocity = jnp.diff(points, axis=0) / jnp.where(lasts, end - begin, 1)[:, None]
    velocity = jnp.where(lasts[:, None], velocity, 0)
    pieces = jnp.concatenate([begin[:, None], end[:, None], points[:-1], velocity], axis=1)
    used = jnp.max(jnp.where(lasts, jnp.arange(1, begin.shape[0] + 1)[:, None], 1))
    return pieces, used.astype(jnp.int32)


def relative_motion(a: jax.Array, b: jax.Array) -> tuple[jax.Array, Pair, Pair]:
    """Compute the relative motion of two sets of straight pieces during their common time.

    Places are computed at the first common time and then moved by the relative velocity. So the rounding error grows
    with the distance moved on the piece, and not with the time since the round began.

    Args:
      a, b: [6, ...] pieces, as from `segments`, of shapes that broadcast: [6, n, 1] and [6, 1, m] for all pairs.

    Returns:
      (the length of the common time, negative where there is none; the relative place (x, y) at its beginning; the
      relative velocity (x, y)), all of the broadcast shape.
    """
    begin_a, end_a, x_a, y_a, vx_a, vy_a = a
    begin_b, end_b, x_b, y_b, vx_b, vy_b = b
    first = jnp.maximum(begin_a, begin_b)
    lasts = jnp.minimum(end_a, end_b) - first
    x = (x_a + vx_a * (first - begin_a)) - (x_b + vx_b * (first - begin_b))
    y = (y_a + vy_a * (first - begin_a)) - (y_b + vy_b * (first - begin_b))
    return lasts, (x, y), (vx_a - vx_b, vy_a - vy_b)


def closest_on(a: jax.Array, b: jax.Array) -> jax.Array:
    """Compute the smallest squared distances between two sets of straight pieces.

    Args:
      a, b: [6, ...] pieces, as in `relative_motion`.

    Returns:
      The squared distances, of the broadcast shape; ``inf`` where two pieces have no common time.
    """
    lasts, (x, y), (vx, vy) = relative_motion(a, b)
    # Without relative motion, the numerator is 0 and the distance is that of the first common time.
    squared_speed = jnp.maximum(vx * vx + vy * vy, jnp.finfo(x.dtype).tiny)
    nearest = jnp.clip(-(x * vx + y * vy) / squared_speed, 0, lasts)
    x, y = x + vx * nearest, y + vy * nearest
    return jnp.where(lasts >= 0, x * x + y * y, jnp.inf)


def over_pieces(
    of_pair: Callable[[jax.Array, jax.Array], jax.Array],
    combine: Callable[[jax.Array, jax.Array], jax.Array],
    start: float,
    rows: jax.Array,
    pieces: jax.Array,
    used: jax.Array,
) -> jax.Array:
    """Combine a value of pairs of clients over all pairs of their pieces.

    Args:
      of_pair: (pieces [6, ...], pieces [6, ...]) -> the value of pairs of pieces, as `closest_on`.
      combine: adds the value of one more pair to the result so far, for example a minimum or a sum.
      start: the result of no pairs.
      rows, pieces: [P, 6, ...] pieces of clients, as from `segments`, of shapes that broadcast: [P, 6, n, 1] and
        [P, 6, 1, m] for all pairs of n and m clients.
      used: [] int32, how many of the P pieces are used.

    Returns:
      The combined values, of the broadcast shape without the first two axes.
    """

    def pair(p: jax.Array) -> Pair:
        return rows[p // used % rows.shape[0]], pieces[p % used]

    def with_pair(p: jax.Array, carry: tuple[jax.Array, Pair]) -> tuple[jax.Array, Pair]:
        so_far, (a, b) = carry
        return combine(so_far, of_pair(a, b)), pair(p + 1)

    # The loop carries the next two pieces. So they are read once, and not again for every pair of clients, which is six
    # times faster on a CPU.
    none = jnp.full(jnp.broadcast_shapes(rows.shape[2:], pieces.shape[2:]), start, pieces.dtype)
    return jax.lax.fori_loop(0, used * used, with_pair, (none, pair(jnp.int32(0))))[0]


def closest_of_rows(rows: jax.Array, pieces: jax.Array, used: jax.Array) -> jax.Array:
    """Compute the smallest squared distances of n clients to m clients: [P, 6, n] and [P, 6, m] pieces -> [n, m]."""
    return over_pieces(closest_on, jnp.minimum, jnp.inf, rows[..., None], pieces[:, :, None], used)


def over_links(
    of_pair: Callable[..., jax.Array],
    combine: Callable[[jax.Array, jax.Array], jax.Array],
    start: float,
    path: tuple[jax.Array, jax.Array],
    ids: jax.Array,
    values: jax.Array,
) -> jax.Array:
    """Combine a value of the links of neighbour lists over all pairs of pieces of the two clients' movement.

    Args:
      of_pair: (pieces [6, ...], pieces [6, ...], values [...]) -> the value of pairs of pieces.
      combine, start: as in `over_pieces`.
      path: the times [N, K] and points [N, K, 2] of the movement, as in `swept`.
      ids: [N, D] int32, the sender at each place (`mdfl_jax.core.links.Senders`).
      values: [N, D] a number of each link, for example the radius within which the two clients hear each other.

    Returns:
      [N, D].
    """
    pieces, used = segments(*path)
    rows = jnp.moveaxis(row_blocks(ids.T, _ROWS), -1, 1), jnp.moveaxis(row_blocks(values.T, _ROWS), -1, 1)

    def of_block(block: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        mine, (sender, value) = block[0], block[1:]
        pair = lambda a, b: of_pair(a, b, value)  # noqa: E731
        return over_pieces(pair, combine, start, mine[..., None], pieces[:, :, sender], used)

    found = jax.lax.map(of_block, (row_blocks(pieces, _ROWS), *rows))
    return found.reshape(-1, ids.shape[1])[: ids.shape[0]]


def row_blocks(values: jax.Array, size: int) -> jax.Array:
    """Cut the last axis into blocks, [..., N] -> [blocks, ..., size]. The last block is padded with its last entry."""
    short = -values.shape[-1] % size
    padded = jnp.concatenate([values, jnp.repeat(values[..., -1:], short, axis=-1)], axis=-1)
    return jnp.moveaxis(padded.reshape(*values.shape[:-1], -1, size), -2, 0)


def closest_squared(times: jax.Array, points: jax.Array) -> jax.Array:
    """Compute the smallest squared distance of every two clients during their movement.

    Args:
      times: [N, K], as in `swept`.
      points: [N, K, 2], as in `swept`.

    Returns:
      [N, N], symmetric; ``inf`` for two clients whose paths have no common time.
    """
    pieces, used = segments(times, points)
    rows = row_blocks(pieces, _ROWS)
    least = jax.lax.map(lambda block: closest_of_rows(block, pieces, used), rows)
    return least.reshape(-1, times.shape[0])[: times.shape[0]]


def swept(times: jax.Array, points: jax.Array, radius: jax.Array | float) -> jax.Array:
    """Find the clients that come within a radius of each other at some instant of their movement (thesis, Neighbours).

    The result is exact: time is not sampled (see the head of this file). The cost grows with the square of the number
    of used pieces. Padding costs nothing.

    Args:
      times: [N, K] non-decreasing, from 0 to 1. The end of a short path is padded by repeating the last time. A path
        says where a client is only between its first and its last time.
      points: [N, K, 2] places at those times, in the unit of the radius. Two places at one time are a jump.
      radius: communication radius, one for all clients or [N]. The smaller of two radii counts, since both clients must
        hear each other. ``inf`` connects all clients.

    Returns:
      adjacency: [N, N] bool, symmetric, without self loops.

    >>> times = jnp.array([[0.0, 1.0], [0.0, 1.0]])
    >>> points = jnp.array([[[0.0, 0.0], [10.0, 0.0]], [[10.0, 1.0], [0.0, 1.0]]])  # they pass at half time
    >>> swept(times, points, 1.0).astype(int).tolist()
    [[0, 1], [1, 0]]
    """
    near = closest_squared(times, points) <= squared_reach(pair_radius(radius), points.dtype)
    return near & ~jnp.eye(times.shape[0], dtype=bool)


def time_on(a: jax.Array, b: jax.Array, squared_radius: jax.Array) -> jax.Array:
    """Compute for how long two straight pieces are within a distance of each other.

    Let v be the relative velocity, d the smallest distance of the two straight lines, and t* its time. The two are
    within the distance R from t* - h to t* + h, where h = sqrt(R^2 - d^2) / |v|. The part of this interval in the
    common time of the two pieces counts. Without relative motion the two are within the distance all the time or never.

    Args:
      a, b: [6, ...] pieces, as from `segments`, of shapes that broadcast.
      squared_radius: R^2, of a shape that broadcasts with them.

    Returns:
      Durations of the broadcast shape, in the unit of the pieces' times, at least 0.
    """
    lasts, (x, y), (vx, vy) = relative_motion(a, b)
    # Without relative motion, the interval below is longer than any common time, so all of the common time counts.
    squared_speed = jnp.maximum(vx * vx + vy * vy, jnp.finfo(x.dtype).tiny)
    nearest = -(x * vx + y * vy) / squared_speed
    x, y = x + vx * nearest, y + vy * nearest
    inside = squared_radius - (x * x + y * y)
    half = jnp.sqrt(jnp.maximum(inside, 0) / squared_speed)
    end, begin = jnp.minimum(nearest + half, lasts), jnp.maximum(nearest - half, 0)
    return jnp.where(inside >= 0, jnp.maximum(end - begin, 0), 0)


def contact_time(
    times: jax.Array, points: jax.Array, radius: jax.Array | float, senders: Senders = ALL_PAIRS
) -> jax.Array:
    """Compute for how long every two clients are within a radius of each other during their movement.

    Args:
      times: [N, K] non-decreasing, as in `swept`.
      points: [N, K, 2] places at those times, in the unit of the radius. Two places at one time are a jump.
      radius: communication radius, one for all clients or [N], of which the smaller of two counts; or one of each link,
        [N, K], the same in both directions.
      senders: the clients for which the places stand; only their durations are computed.

    Returns:
      [N, K] durations in the unit of ``times``, exactly symmetric; 0 for a client and itself.

    >>> times = jnp.array([[0.0, 1.0], [0.0, 1.0]])
    >>> points = jnp.array([[[0.0, 0.0], [10.0, 0.0]], [[10.0, 0.0], [0.0, 0.0]]])  # they approach at the speed 20
    >>> round(float(contact_time(times, points, 1.0)[0, 1]), 5)
    0.1
    """
    num_clients = times.shape[0]
    if senders.ids is not None:
        limit = squared_reach(link_radius(radius, senders, num_clients), points.dtype)
        lasted = over_links(time_on, jnp.add, 0.0, (times, points), senders.ids, limit)
        return jnp.where(in_use(senders, num_clients), (lasted + senders.opposite(lasted)) / 2, 0)
    pieces, used = segments(times, points)
    reach = jnp.broadcast_to(squared_reach(pair_radius(radius), points.dtype), (num_clients, num_clients))

    def of_block(block: tuple[jax.Array, jax.Array]) -> jax.Array:
        rows, squared_radius = block
        near = lambda a, b: time_on(a, b, squared_radius.T)  # noqa: E731
        return over_pieces(near, jnp.add, 0.0, rows[..., None], pieces[:, :, None], used)

    blocks = jax.lax.map(of_block, (row_blocks(pieces, _ROWS), row_blocks(reach, _ROWS)))
    found = blocks.reshape(-1, num_clients)[:num_clients]
    # Both directions of a contact must be judged alike, but their sums over pieces are rounded in another order.
    return jnp.where(jnp.eye(num_clients, dtype=bool), 0, (found + found.T) / 2)


def seconds_in_contact(
    contact: jax.Array,
    path: Path | None,
    radius: jax.Array,
    seconds: jax.Array | float,
    senders: Senders = ALL_PAIRS,
) -> jax.Array:
    """Compute the seconds of contact of every two clients in a round.

    Args:
      contact: [N, K] bool, the contacts of the round.
      path: the paths of the movement by which contact is judged (``swept``), with times as shares of the round. None
        means that contact is judged at the beginning of the round (``disc``); then it lasts for the whole round.
      radius: [N] communication radii, or [N, K] those of the links.
      seconds: [] the duration of the movement of a round, in seconds.
      senders: the clients for which the places stand.

    Returns:
      [N, K] float32 seconds; 0 where there is no contact.
    """
    share = 1.0 if path is None else contact_time(*path, radius, senders)
    return jnp.where(contact, jnp.asarray(seconds, jnp.float32) * share, 0)


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
    """Compute the contacts of `swept` as neighbour lists.

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
    # The last chunk is padded with copies of the last client. The copies get the id -1, so that they are in no contact.
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


def standing_paths(position: jax.Array) -> Path:
    """Return the paths [N, 1, 2] of clients that stay at their places [N, 2], in whose sweep `swept` is `disc`."""
    return Path(jnp.zeros((position.shape[0], 1), position.dtype), position[:, None])


class Met(NamedTuple):
    """The contacts of a round.

    Attributes:
      senders: the clients for which the K places stand.
      heard: [N, K] bool, [i, j] where i is in contact with the sender at place j.
      squared: [N, K] the squared distances of the two clients, the smallest of a movement; None if nobody needs them.
      lasted: [N, K] float32 the seconds of each contact in the round, where a contact list has them; None elsewhere.
      position: [N, 2] the places at the beginning of the round; None where clients have none.
      height: [N] float32 heights in metres at the beginning of the round, NaN where nothing says them; None: no trace
        has heights.
      is_mobile: [N] bool, the mobile clients; None where clients have no places.
      path: the movement in which clients met; None: they met at the beginning of the round.
      radius: [N] communication radii, or [N, K] those of the links; None where clients have no places.
      duration: [] the seconds of movement in a round; None where clients have no places.
      rate: [N, K] float32 bits per second over each link; None: the network does not know it.
      capacity: [N, K] float32 bits that each link carries at most (`mdfl_jax.core.types.Channel`); None: no limit.
      extra: what else link filters know of the contacts, for the links (`mdfl_jax.core.types.Extra`).
    """

    senders: Senders
    heard: jax.Array
    squared: jax.Array | None = None
    lasted: jax.Array | None = None
    position: jax.Array | None = None
    height: jax.Array | None = None
    is_mobile: jax.Array | None = None
    path: Path | None = None
    radius: jax.Array | None = None
    duration: Any = None
    rate: jax.Array | None = None
    capacity: jax.Array | None = None
    extra: tuple[Extra, ...] = ()

    def links(self, adjacency: jax.Array, mix: jax.Array) -> Links:
        """Return the links of the round that are left, with what is known of them."""
        channel = Channel(rate=self.rate, capacity=self.capacity)
        return Links(adjacency, mix, self.senders, channel=channel, extra=self.extra)

    def seconds(self) -> jax.Array:
        """Compute the seconds of each contact in the round, [N, K] float32 (`seconds_in_contact`)."""
        if self.lasted is not None:
            return jnp.asarray(self.lasted)
        assert self.radius is not None, "the network knows durations"
        return seconds_in_contact(self.heard, self.path, self.radius, self.duration, self.senders)


def dense_contacts(position: jax.Array, path: Path | None, radius: jax.Array, distances: bool) -> Met:
    """Find the contacts of a round as matrices [N, N].

    Args:
      position: [N, 2] places at the beginning of the round.
      path: the movement in which clients meet (`swept`); None: they meet where they are (`disc`).
      radius: [N] communication radii.
      distances: whether squared distances are needed.
    """
    if path is None:
        return Met(ALL_PAIRS, disc(position, radius), squared_distance(position, position) if distances else None)
    if not distances:
        return Met(ALL_PAIRS, swept(*path, radius))
    num_clients = position.shape[0]
    nearest = closest_squared(*path)
    near = nearest <= squared_reach(link_radius(radius, ALL_PAIRS, num_clients), nearest.dtype)
    return Met(ALL_PAIRS, near & in_use(ALL_PAIRS, num_clients), nearest)


def listed_contacts(
    position: jax.Array, path: Path | None, radius: jax.Array, distances: bool, max_neighbours: int
) -> Met:
    """Find the contacts of `dense_contacts` as neighbour lists that hold ``max_neighbours`` neighbours of a client."""
    movement = path or standing_paths(position)
    senders = as_senders(*swept_neighbours(*movement, radius, max_neighbours))
    assert senders.ids is not None
    heard = in_use(senders, position.shape[0])
    if not distances:
        return Met(senders, heard)
    unread = jnp.zeros(senders.ids.shape, position.dtype)
    nearest = over_links(lambda a, b, _: closest_on(a, b), jnp.minimum, jnp.inf, movement, senders.ids, unread)
    return Met(senders, heard, nearest)


class ContactList(NamedTuple):
    """A `ContactTable` as an argument of the compiled program.

    Attributes:
      edges: [n + most, 2] int32, the receiver and the sender of each link. The end is padded, so that the slice of any
        round stays inside.
      offsets: [R + 1] int32; the links of round k are ``edges[offsets[k]:offsets[k + 1]]``.
      slots: [most] int32, the numbers 0 to most - 1, where ``most`` is the number of links of the fullest round.
      repeats: [] bool. If true, the list begins again after its last round; else the last round's links stay.
      seconds: [n + most] float32, for how long the two clients of each link are in contact in its round; None where
        nobody needs it.
    """

    edges: Any
    offsets: Any
    slots: Any
    repeats: Any
    seconds: Any = None


def contact_list(table: ContactTable, at_end: str = "hold") -> ContactList:
    """Make the data of the mobility rule ``contacts``, as NumPy arrays.

    Args:
      table: the links of each round, from `mdfl_jax.traces.contact_table`.
      at_end: what follows the last round of the table. With ``hold`` its links stay; with ``repeat`` the list begins
        again.

    Returns:
      The contact list, for `SpatialParams.trace`.

    Raises:
      UserError: if ``at_end`` is unknown, or the table has no rounds.
    """
    check_at_end(at_end)
    if len(table.offsets) < 2:
        raise UserError("the contact list has no rounds")
    most = max(int(np.diff(table.offsets).max()), 1)
    edges = np.concatenate([table.edges, np.zeros((most, 2), np.int32)]).astype(np.int32)
    seconds = None if table.seconds is None else np.append(table.seconds, np.zeros(most, np.float32))
    slots, repeats = np.arange(most, dtype=np.int32), np.bool_(at_end == "repeat")
    return ContactList(edges, table.offsets.astype(np.int32), slots, repeats, seconds)


class Pairs(NamedTuple):
    """The links of one round of a contact list, all [most].

    Attributes:
      receiver: int32.
      sender: int32.
      real: bool, whether the pair is a link of this round.
      seconds: float32 seconds of contact in the round; None where nobody needs them.
    """

    receiver: jax.Array
    sender: jax.Array
    real: jax.Array
    seconds: jax.Array | None


def pairs_at(links: ContactList, round_index: jax.Array) -> Pairs:
    """Read the links of one round from a contact list.

    Args:
      links: the contact list.
      round_index: [] int32.
    """
    edges, offsets, slots = (jnp.asarray(column) for column in (links.edges, links.offsets, links.slots))
    rounds = offsets.shape[0] - 1
    k = jnp.where(links.repeats, jnp.mod(round_index, rounds), jnp.minimum(round_index, rounds - 1))
    pair = edges[offsets[k] + slots]
    seconds = None if links.seconds is None else jnp.asarray(links.seconds)[offsets[k] + slots]
    return Pairs(pair[:, 0], pair[:, 1], slots < offsets[k + 1] - offsets[k], seconds)


def matrix_of_pairs(pairs: Pairs, num_clients: int, values: Any = True) -> jax.Array:
    """Return values of the links of a round as a matrix [N, N], at [i, j] where i hears j; False or zero elsewhere."""
    # The entries of the slice after the round's links get an index out of range, and the scatter drops them.
    receiver = jnp.where(pairs.real, pairs.receiver, num_clients)
    none = jnp.zeros((num_clients, num_clients), jnp.result_type(values))
    return none.at[receiver, pairs.sender].set(values, mode="drop")


def contacts_in_list(
    contacts: ContactList, round_index: jax.Array, num_clients: int, distances: bool, max_neighbours: int
) -> Met:
    """Read the contacts of a round from a contact list; its clients have no places, so their distances are zero.

    Args:
      contacts: the contact list.
      round_index: [] int32.
      num_clients: N.
      distances: whether squared distances are needed.
      max_neighbours: the number of neighbours that neighbour lists hold; 0 for matrices [N, N].
    """
    pairs = pairs_at(contacts, round_index)
    if not max_neighbours:
        none = jnp.zeros((num_clients, num_clients)) if distances else None
        seconds = None if pairs.seconds is None else matrix_of_pairs(pairs, num_clients, pairs.seconds)
        return Met(ALL_PAIRS, matrix_of_pairs(pairs, num_clients), none, seconds)
    receiver, sender, real, lasted = pairs
    senders = from_pairs(receiver, sender, real, num_clients, max_neighbours + 1)
    heard = heard_from(senders, receiver, sender, real)
    seconds = None if lasted is None else heard_from(senders, receiver, sender, real, lasted)
    return Met(senders, heard, jnp.zeros(heard.shape) if distances else None, seconds)
