"""Distances between places, exact where places are grid points."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from mdfl_jax.errors import UserError


def squared_distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """Squared Euclidean distances between two sets of places: [n, 2] and [m, 2] -> [n, m].

    The differences are squared directly rather than through |a|^2 - 2ab + |b|^2: on a grid they are then exact.
    """
    difference = a[:, None, :] - b[None, :, :]
    return jnp.sum(difference * difference, axis=-1)


def squared_reach(radius: jax.Array | float, dtype: DTypeLike = jnp.float32) -> jax.Array:
    """The largest squared distance that counts as within a radius.

    A place at exactly the distance is within it, also where the distance is a root: float32(sqrt(2)) squared is less
    than 2, so squares are compared with a relative margin of 1e-6, far less than lies between two squares on a grid.
    """
    return jnp.square(jnp.asarray(radius, dtype)) * (1 + 1e-6)


def within(a: jax.Array, b: jax.Array, radius: jax.Array | float) -> jax.Array:
    """Which places of one set are within a distance of which of another: [n, 2] and [m, 2] -> [n, m] bool.

    ``radius`` is one for all or one a pair, [n, m]; see `squared_reach` for places at exactly the distance.
    """
    return squared_distance(a, b) <= squared_reach(radius, a.dtype)


def points_of(path: str, text: str) -> list[tuple[float, float]]:
    """The points of a text 'x,y; x,y; ...', none of an empty one.

    Args:
      path: of the field that holds the text, for errors.
      text: two numbers a point, which may be infinite.

    Raises:
      UserError: for a text that is not of that form.

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
