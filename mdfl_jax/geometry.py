"""Distances between places, exact where places are grid points."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike


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
