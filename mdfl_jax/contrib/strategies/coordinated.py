"""Coordinated DCM: no two to one place.

Reasoning: two mobile clients at one centre serve the same static clients, and while they do, nobody serves the others.

It must know what DCM knows, and for which places the other mobile clients are heading; without an oracle, only those in
range tell it. If others head for all other centres, it draws as DCM.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.choosing import Sight, drawn
from mdfl_jax.mobility.registry import strategy


@strategy("coordinated", formula="p(L) ~ d(L) over the cluster centres without a rival; with rivals at all, as dcm")
def coordinated(key: jax.Array, sight: Sight) -> jax.Array:
    """Coordinated DCM: as DCM, but not to a centre for which another mobile client is heading, or where it stands."""
    free = jnp.where(sight.rivals > 0, 0.0, sight.distance)
    return drawn(key, jnp.where(jnp.any(sight.valid & (free > 0)), free, sight.distance), sight)
