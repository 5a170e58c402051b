"""The discs of radius Rc around grid points, row by row: sums over them, and walks over the clients in them.

A disc cuts each row of the grid in one run of columns. So a row adds the difference of two running sums to the sum over
a disc. If clients are sorted by place, a row's clients in the disc are one run of them. Neither needs an array of every
grid point and every client.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

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


class Standing(NamedTuple):
    """Clients sorted by the grid points at which they stand.

    Attributes:
      order: [N] int32, the clients, point by point. Those that do not count come last.
      begin: [L + 1] int32, where in ``order`` the clients of each point begin, and where those of the last one end.
    """

    order: jax.Array
    begin: jax.Array


def standing(places: jax.Array, counted: jax.Array, points: int) -> Standing:
    """Sort clients by place.

    Args:
      places: [N] int32 indices of their places.
      counted: [N] bool, the clients that count.
      points: L.
    """
    place = jnp.where(counted, places, points)
    order = jnp.argsort(place, stable=True).astype(jnp.int32)
    begin = jnp.searchsorted(place[order], jnp.arange(points + 1), side="left").astype(jnp.int32)
    return Standing(order, begin)


def over_near(
    add: Callable[[Any, jax.Array, jax.Array], Any],
    state: Any,
    found: Standing,
    places: jax.Array,
    asking: jax.Array,
    size: int,
    radius: jax.Array | float,
) -> Any:
    """Show to each client, one after another, the sorted clients that stand within a radius of it.

    All clients look at the same time, so there are as many steps as the most that one of them sees in each row.

    Args:
      add: (state, [N] int32 the client that each client is shown, [N] bool whether there is one) -> state.
      state: the state before.
      found: the clients that are shown.
      places: [N] int32 indices of the places from which clients look.
      asking: [N] bool, the clients that look.
      size: G.
      radius: how far they see, in grid units.

    Returns:
      The state after all have been shown.
    """
    widths = half_widths(size, radius)
    row, column = places // size, places % size

    def in_row(distance: jax.Array, state: Any) -> Any:
        width, there = widths[jnp.abs(distance)], row + distance
        start = jnp.clip(there, 0, size - 1) * size
        first = found.begin[start + jnp.maximum(column - width, 0)]
        last = found.begin[start + jnp.minimum(column + width, size - 1) + 1]
        count = jnp.where(asking & (there >= 0) & (there < size), last - first, 0)

        def of_rank(rank: jax.Array, state: Any) -> Any:
            sees = rank < count
            return add(state, found.order[jnp.where(sees, first + rank, 0)], sees)

        return jax.lax.fori_loop(0, jnp.max(count), of_rank, state)

    reach = jnp.sum(widths >= 0) - 1
    return jax.lax.fori_loop(-reach, reach + 1, in_row, state)
