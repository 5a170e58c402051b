"""Distances between positions. They are exact where the positions are grid points."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from mdfl_jax.core.errors import UserError


def squared_distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """Compute the squared Euclidean distances between two sets of positions: [n, 2] and [m, 2] -> [n, m].

    The differences are squared directly rather than through |a|^2 - 2ab + |b|^2, so the result is exact on a grid.
    """
    difference = a[:, None, :] - b[None, :, :]
    return jnp.sum(difference * difference, axis=-1)


def squared_reach(radius: jax.Array | float, dtype: DTypeLike = jnp.float32) -> jax.Array:
    """Return the largest squared distance that counts as within a radius.

    A position at exactly this distance counts as within the radius, also where the radius is a square root:
    float32(sqrt(2)) squared is less than 2, so the result includes a relative margin of 1e-6. The margin is much
    smaller than the difference between two squared distances on a grid.

    Args:
      radius: one number or an array of any shape.
      dtype: the type of the result.
    """
    return jnp.square(jnp.asarray(radius, dtype)) * (1 + 1e-6)


def within(a: jax.Array, b: jax.Array, radius: jax.Array | float) -> jax.Array:
    """Tell for each pair of positions whether their distance is at most a radius.

    Args:
      a: [n, 2] positions.
      b: [m, 2] positions.
      radius: one radius for all pairs, or [n, m] with one radius for each pair.

    Returns:
      [n, m] bool; see `squared_reach` for pairs at exactly the radius.
    """
    return squared_distance(a, b) <= squared_reach(radius, a.dtype)


def points_of(path: str, text: str) -> list[tuple[float, float]]:
    """Parse a text 'x,y; x,y; ...' into a list of points. The list is empty for an empty text.

    Args:
      path: the dotted path of the field that holds the text, for error messages.
      text: two numbers for each point; they may be infinite.

    Raises:
      UserError: if the text does not have this form.

    >>> points_of("motion.loop", "0,0; 10,2.5")
    [(0.0, 0.0), (10.0, 2.5)]
    """
    points = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        try:
            x, y = (float(number) for number in part.split(","))
        except ValueError:
            raise UserError(f"{path}: {part!r} is not of the form x,y") from None
        points.append((x, y))
    return points
