"""Contact: which clients are in each other's radio range, now or at any time of a movement.

A movement is piecewise linear: client i is at ``points[i, k]`` at the time ``times[i, k]`` and runs straight to the
next point. On a time that two segments share, the squared distance of two clients is a quadratic of time, whose
smallest value on an interval is known in closed form; the smallest over all pairs of segments is that of the movement.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.geometry import squared_reach, within

CONTACTS = ("disc", "swept")
ROWS = 64  # rows of the matrix at a time: distances under way stay in the cache, five times faster than all at once
Pair = tuple[jax.Array, jax.Array]


def pair_radius(radius: jax.Array | float) -> jax.Array:
    """The distance within which two clients hear each other: the smaller of their radii.

    Args:
      radius: one for all, or [N].

    Returns:
      [] or [N, N].
    """
    radius = jnp.asarray(radius)
    return radius if radius.ndim == 0 else jnp.minimum(radius[:, None], radius[None, :])


def disc(position: jax.Array, radius: jax.Array | float) -> jax.Array:
    """Clients within a radius of each other (MADFL II-A).

    Args:
      position: [N, 2] places, in the unit of the radius.
      radius: communication radius Rc, one for all or [N]; two clients of unequal radii hear each other within the
        smaller one. ``inf`` connects everybody.

    Returns:
      adjacency: [N, N] bool, symmetric, no self loops.

    >>> place = jnp.array([[0.0, 0.0], [3.0, 4.0], [9.0, 0.0]])
    >>> disc(place, 5.0).astype(int).tolist()
    [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    """
    return within(position, position, pair_radius(radius)) & ~jnp.eye(position.shape[0], dtype=bool)


def segments(times: jax.Array, points: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The straight pieces of paths, laid out for `closest_on`.

    Args:
      times: [N, K] non-decreasing.
      points: [N, K, 2].

    Returns:
      pieces: [max(K - 1, 1), 6, N]: begin and end times, place at the beginning (x, y) and velocity (x, y). A piece of
        no duration, padding or a jump, stands still at its beginning.
      used: [] int32, pieces beyond which no path moves on; one at least.
    """
    if times.shape[1] == 1:  # one point: there all the time
        times, points = jnp.repeat(times, 2, axis=1).at[:, 1].set(1), jnp.repeat(points, 2, axis=1)
    times, points = times.T, jnp.moveaxis(points, 0, -1)  # clients last: they are what is looped over
    begin, end = times[:-1], times[1:]
    lasts = end > begin
    velocity = jnp.diff(points, axis=0) / jnp.where(lasts, end - begin, 1)[:, None]
    velocity = jnp.where(lasts[:, None], velocity, 0)
    pieces = jnp.concatenate([begin[:, None], end[:, None], points[:-1], velocity], axis=1)
    used = jnp.max(jnp.where(lasts, jnp.arange(1, begin.shape[0] + 1)[:, None], 1))
    return pieces, used.astype(jnp.int32)


def closest_on(a: jax.Array, b: jax.Array) -> jax.Array:
    """Smallest squared distances between straight pieces: [6, n] and [6, m] -> [n, m]; ``inf`` with no common time.

    Places are taken at the first common time and moved on by the relative velocity, so that rounding grows with the
    distance moved on the piece and not with time since the round began.
    """
    begin_a, end_a, x_a, y_a, vx_a, vy_a = a[:, :, None]
    begin_b, end_b, x_b, y_b, vx_b, vy_b = b[:, None, :]
    first = jnp.maximum(begin_a, begin_b)
    lasts = jnp.minimum(end_a, end_b) - first
    x = (x_a + vx_a * (first - begin_a)) - (x_b + vx_b * (first - begin_b))
    y = (y_a + vy_a * (first - begin_a)) - (y_b + vy_b * (first - begin_b))
    vx, vy = vx_a - vx_b, vy_a - vy_b
    squared_speed = jnp.maximum(vx * vx + vy * vy, jnp.finfo(x.dtype).tiny)
    nearest = jnp.clip(-(x * vx + y * vy) / squared_speed, 0, lasts)
    x, y = x + vx * nearest, y + vy * nearest
    return jnp.where(lasts >= 0, x * x + y * y, jnp.inf)


def closest_of_rows(rows: jax.Array, pieces: jax.Array, used: jax.Array) -> jax.Array:
    """Smallest squared distances of some clients to others, over all pieces: [P, 6, n] and [P, 6, m] -> [n, m]."""

    def pair(p: jax.Array) -> Pair:
        return rows[p // used % rows.shape[0]], pieces[p % used]

    def with_pair(p: jax.Array, carry: tuple[jax.Array, Pair]) -> tuple[jax.Array, Pair]:
        least, (a, b) = carry
        return jnp.minimum(least, closest_on(a, b)), pair(p + 1)

    # The next pieces are carried, so that they are taken out once and not again for every pair of clients: six times
    # faster on a CPU.
    none = jnp.full((rows.shape[2], pieces.shape[2]), jnp.inf, pieces.dtype)
    return jax.lax.fori_loop(0, used * used, with_pair, (none, pair(jnp.int32(0))))[0]


def row_blocks(values: jax.Array, size: int) -> jax.Array:
    """[..., N] -> [blocks, ..., size], the last block filled up with its last entry."""
    short = -values.shape[-1] % size
    padded = jnp.concatenate([values, jnp.repeat(values[..., -1:], short, axis=-1)], axis=-1)
    return jnp.moveaxis(padded.reshape(*values.shape[:-1], -1, size), -2, 0)


def closest_squared(times: jax.Array, points: jax.Array) -> jax.Array:
    """Smallest squared distance of every two clients during their movement.

    Args:
      times: [N, K], as `swept`.
      points: [N, K, 2].

    Returns:
      [N, N], symmetric; ``inf`` for two that are never there at once.
    """
    pieces, used = segments(times, points)
    rows = row_blocks(pieces, ROWS)
    least = jax.lax.map(lambda block: closest_of_rows(block, pieces, used), rows)
    return least.reshape(-1, times.shape[0])[: times.shape[0]]


def swept(times: jax.Array, points: jax.Array, radius: jax.Array | float) -> jax.Array:
    """Clients that come within a radius of each other at the same instant of their movement (thesis, Neighbours).

    Exact, not sampled: see the head of this file. The cost grows with the square of the pieces really used; padding
    costs nothing.

    Args:
      times: [N, K] non-decreasing, from 0 to 1; ends are padded by repeating the last time. A path says where a client
        is between its first and its last time only.
      points: [N, K, 2] places at those times, in the unit of the radius. Two points at one time are a jump.
      radius: communication radius, one for all or [N] (both must hear: the smaller counts); ``inf`` connects everybody.

    Returns:
      adjacency: [N, N] bool, symmetric, no self loops.

    >>> times = jnp.array([[0.0, 1.0], [0.0, 1.0]])
    >>> points = jnp.array([[[0.0, 0.0], [10.0, 0.0]], [[10.0, 1.0], [0.0, 1.0]]])  # they pass at half time
    >>> swept(times, points, 1.0).astype(int).tolist()
    [[0, 1], [1, 0]]
    """
    near = closest_squared(times, points) <= squared_reach(pair_radius(radius), points.dtype)
    return near & ~jnp.eye(times.shape[0], dtype=bool)
