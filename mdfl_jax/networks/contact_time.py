"""Contact durations: for how many seconds of a round two clients are within each other's radio range.

Movement is piecewise linear, as in `mdfl_jax.networks.contact`. While two straight pieces overlap in time, the squared
distance of two clients is a quadratic function of time, and the clients are in contact between its two roots. The sum
over all pairs of pieces is the exact duration; time is not sampled.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import squared_reach
from mdfl_jax.core.links import ALL_PAIRS, Senders, in_use
from mdfl_jax.mobility.rule import Path
from mdfl_jax.networks.contact import (
    ROWS,
    link_radius,
    over_links,
    over_pieces,
    pair_radius,
    relative_motion,
    row_blocks,
    segments,
)


def time_on(a: jax.Array, b: jax.Array, squared_radius: jax.Array) -> jax.Array:
    """Compute for how long two straight pieces are within a distance of each other.

    With the relative velocity v, the smallest distance d of the two straight lines and its time t*, the two are within
    the distance R from t* - h to t* + h, where h = sqrt(R^2 - d^2) / |v|. The part of this interval in the common time
    of the two pieces counts. Two pieces without relative motion are within the distance all the time, or never.

    Args:
      a, b: [6, ...] pieces, as from `mdfl_jax.networks.contact.segments`, of shapes that broadcast.
      squared_radius: R^2, of a shape that broadcasts with them.

    Returns:
      Durations of the broadcast shape, in the unit of the pieces' times, at least 0.
    """
    lasts, (x, y), (vx, vy) = relative_motion(a, b)
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
      times: [N, K] non-decreasing, as in `mdfl_jax.networks.contact.swept`.
      points: [N, K, 2] places at those times, in the unit of the radius. Two places at one time are a jump.
      radius: communication radius, one for all clients or [N]; the smaller of two radii counts.
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

    blocks = jax.lax.map(of_block, (row_blocks(pieces, ROWS), row_blocks(reach, ROWS)))
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
      radius: [N] communication radii.
      seconds: [] the duration of the movement of a round, in seconds.
      senders: the clients for which the places stand.

    Returns:
      [N, K] float32 seconds; 0 where there is no contact.
    """
    share = 1.0 if path is None else contact_time(*path, radius, senders)
    return jnp.where(contact, jnp.asarray(seconds, jnp.float32) * share, 0)
