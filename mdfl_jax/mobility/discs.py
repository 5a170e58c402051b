"""The discs of radius Rc around grid points, row by row, and sums over them.

A disc cuts each row of the grid in one run of columns. So a row adds the difference of two running sums to the sum over
a disc, which needs no array of every grid point and every client.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import squared_reach


def half_widths(size: int, radius: jax.Array | float) -> jax.Array:
    """Return how many columns a disc reaches to each side, in the rows at the distances 0 to G - 1 from its centre.

    Args:
      size: G.
      radius: radius of the disc in grid units. A point at exactly this distance counts (`geometry.squared_reach`).

    Returns:
      [G] int32, at most G - 1; -1 for rows that the disc does not reach.

    >>> half_widths(5, 2.0).tolist()
    [2, 1, 0, -1, -1]
    """
    squared = jnp.square(jnp.arange(size, dtype=jnp.float32))
    limit = squared_reach(radius, squared.dtype)
    # The points of a row are counted, since a rounded root may be wrong by one. Whole numbers are exact in float32.
    return jnp.sum(squared[:, None] + squared[None, :] <= limit, axis=1, dtype=jnp.int32) - 1


def sums_in_range(values: jax.Array, radius: jax.Array | float) -> jax.Array:
    """Sum values over the discs around all grid points.

    Args:
      values: [G, G, C] int32, values at the grid points. The sum of all of them must be below 2^31.
      radius: radius of the discs in grid units.

    Returns:
      [G, G, C] int32, the sums.

    >>> sums_in_range(jnp.eye(3, dtype=jnp.int32)[..., None], 1.0)[..., 0].tolist()
    [[1, 2, 0], [2, 1, 2], [0, 2, 1]]
    """
    size = values.shape[0]
    widths = half_widths(size, radius)
    running = jnp.pad(jnp.cumsum(values, axis=1), ((0, 0), (1, 0), (0, 0)))
    place = jnp.arange(size)

    def with_row(distance: jax.Array, total: jax.Array) -> jax.Array:
        width, row = widths[jnp.abs(distance)], place + distance
        end, begin = jnp.minimum(place + width, size - 1) + 1, jnp.maximum(place - width, 0)
        found = (running[:, end] - running[:, begin])[jnp.clip(row, 0, size - 1)]
        return total + jnp.where(((row >= 0) & (row < size))[:, None, None], found, 0)

    reach = jnp.sum(widths >= 0) - 1
    return jax.lax.fori_loop(-reach, reach + 1, with_row, jnp.zeros_like(values))


def summed_at(places: jax.Array, values: jax.Array, size: int) -> jax.Array:
    """Sum the values of clients that stand at the same grid point.

    Args:
      places: [n] int32 indices of the clients' places.
      values: [n, C].
      size: G.

    Returns:
      [G, G, C], of the type of the values.
    """
    return jnp.zeros((size * size, values.shape[1]), values.dtype).at[places].add(values).reshape(size, size, -1)
