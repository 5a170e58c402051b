"""Contact: which clients are in each other's radio range."""

import jax
import jax.numpy as jnp


def squared_distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """Squared Euclidean distances between two sets of places: [n, 2] and [m, 2] -> [n, m].

    The differences are squared directly rather than through |a|^2 - 2ab + |b|^2: on a grid they are then exact, so a
    client at exactly the radius is in range, on every backend.
    """
    difference = a[:, None, :] - b[None, :, :]
    return jnp.sum(difference * difference, axis=-1)


def disc(position: jax.Array, radius: jax.Array | float) -> jax.Array:
    """Clients within a common radius of each other (MADFL II-A).

    Args:
      position: [N, 2] places, in the unit of the radius.
      radius: communication radius Rc; ``inf`` connects everybody.

    Returns:
      adjacency: [N, N] bool, symmetric, no self loops.

    >>> place = jnp.array([[0.0, 0.0], [3.0, 4.0], [9.0, 0.0]])
    >>> disc(place, 5.0).astype(int).tolist()
    [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    """
    near = squared_distance(position, position) <= jnp.square(jnp.asarray(radius, position.dtype))
    return near & ~jnp.eye(position.shape[0], dtype=bool)
