"""Weighted DCM: centres count by the data that they serve.

Reasoning: a centre with much data teaches, and a centre with little data has little to teach and few to serve. DCM
weighs them alike if their labels differ as much.

It must know what DCM knows.
"""

import jax

from mdfl_jax.mobility.choosing import Sight, drawn
from mdfl_jax.mobility.registry import strategy


@strategy("dcm_weighted", formula="p(L) ~ d(L) sum over j in S(L) of n_j, over the cluster centres")
def dcm_weighted(key: jax.Array, sight: Sight) -> jax.Array:
    """Weighted DCM: a cluster centre is drawn in proportion to label distance times samples in range."""
    return drawn(key, sight.distance * sight.near(sight.samples), sight)
