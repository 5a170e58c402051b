"""Coordinated DCM: no two to one place.

Reasoning: two mobile clients at one centre serve the same static clients, and while they do, nobody serves the others.

It must know what DCM knows, and for which places the other mobile clients are heading.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.sight import Sight, drawn
from mdfl_jax.mobility.strategy import strategy


@strategy("coordinated")
def coordinated(key: jax.Array, sight: Sight) -> jax.Array:
    """Coordinated DCM: as DCM, but not to a centre for which another mobile client is heading, or where it stands."""
    return drawn(key, jnp.where(sight.rivals > 0, 0.0, sight.distance), sight)
