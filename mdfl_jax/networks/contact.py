"""Contact: which clients are in each other's radio range."""

import jax
import jax.numpy as jnp

from mdfl_jax.geometry import within


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
    return within(position, position, radius) & ~jnp.eye(position.shape[0], dtype=bool)
