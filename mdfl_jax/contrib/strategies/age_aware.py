"""Labels and age: DCM's label distance, times the time since anybody was there.

Reasoning: DCM goes where labels differ most, also where another mobile client has just been. What such a place lacks is
little then. So the distance counts as much as the time since the last visit of anybody.

It must know the places and label counts of the static clients, and, with an oracle, when each of them last met any
mobile client. Without one, it knows only its own visits.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.choosing import Sight, best
from mdfl_jax.mobility.registry import strategy


@strategy("age_aware", formula="score(L) = d(L) times the mean over j in S(L) of b_j, over the cluster centres")
def age_aware(key: jax.Array, sight: Sight) -> jax.Array:
    """Age-aware movement: to the cluster centre with the largest label distance times time since anybody was there."""
    latest = jnp.where(sight.known, jnp.min(sight.ages, axis=0), 0.0)
    clients = jnp.maximum(sight.near(sight.known.astype(latest.dtype)), 1.0)
    return best(key, sight.distance * sight.near(latest) / clients, sight)
