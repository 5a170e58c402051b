"""Contact: which clients are in each other's radio range, at one instant or at any time of a movement.

A movement is piecewise linear: client i is at ``points[i, k]`` at the time ``times[i, k]`` and moves straight to the
next of these places. While two segments overlap in time, the squared distance of two clients is a quadratic function of
time. Its smallest value on an interval is known in closed form. The smallest value over all pairs of segments is the
smallest squared distance of the movement.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import squared_reach, within
from mdfl_jax.core.links import Senders

CONTACTS = ("disc", "swept")
# Rows of the matrix that are computed at a time. The intermediate results then stay in the cache, which is five times
# faster than all rows at once.
ROWS = 64
Pair = tuple[jax.Array, jax.Array]


def pair_radius(radius: jax.Array | float) -> jax.Array:
    """Compute the distance within which two clients hear each other: the smaller of their radii.

    Args:
      radius: one radius for all clients, or [N].

    Returns:
      [] for one radius, [N, N] for [N] radii.
    """
    radius = jnp.asarray(radius)
    return radius if radius.ndim == 0 else jnp.minimum(radius[:, None], radius[None, :])


def link_radius(radius: jax.Array | float, senders: Senders, num_clients: int) -> jax.Array:
    """Compute for each link the distance within which its two clients hear each other, as `pair_radius`: [N, K]."""
    radii = jnp.broadcast_to(jnp.asarray(radius), (num_clients,))
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
    rows = jnp.moveaxis(row_blocks(ids.T, ROWS), -1, 1), jnp.moveaxis(row_blocks(values.T, ROWS), -1, 1)

    def of_block(block: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        mine, (sender, value) = block[0], block[1:]
        pair = lambda a, b: of_pair(a, b, value)  # noqa: E731
        return over_pieces(pair, combine, start, mine[..., None], pieces[:, :, sender], used)

    found = jax.lax.map(of_block, (row_blocks(pieces, ROWS), *rows))
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
    rows = row_blocks(pieces, ROWS)
    least = jax.lax.map(lambda block: closest_of_rows(block, pieces, used), rows)
    return least.reshape(-1, times.shape[0])[: times.shape[0]]


def swept(times: jax.Array, points: jax.Array, radius: jax.Array | float) -> jax.Array:
    """Find the clients that come within a radius of each other at some instant of their movement (thesis, Neighbours).

    The result is exact: time is not sampled (see the head of this file). The cost grows with the square of the number
    of pieces that are used. Padding costs nothing.

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
