"""A lattice of places over the plane, of which strategies and the places of relays are chosen."""

import jax
import jax.numpy as jnp

SIDE = 25  # points a side, at the middles of equal cells


def lattice(size: jax.Array) -> jax.Array:
    """Make the candidate places [SIDE^2, 2] of a plane of size [2], in metres."""
    steps = (jnp.arange(SIDE) + 0.5) / SIDE
    return jnp.stack([axis.ravel() for axis in jnp.meshgrid(steps, steps, indexing="ij")], axis=1) * size
