"""Rules for each coordinate by itself: the median."""

import jax
import jax.numpy as jnp

from mdfl_jax.exchange.neighbourhood import Neighbourhood, RobustNumbers, for_one_client, sum_of_ranked


@for_one_client(
    "median",
    RobustNumbers,
    weighs=False,
    formula="x_i+ = median of x_i and the y_j heard, coordinate by coordinate",
    cite="yin2018; fang2022: BRIDGE-M",
)
def median(near: Neighbourhood) -> jax.Array:
    """Take the median of each coordinate over the client's own model and the received models.

    For an even number of models the median is the mean of the two middle values. It lies between honest values while
    fewer than half of the models are attackers'. With one neighbour it is the mean of two models, which one attacker
    can move without bound.
    """
    place = jnp.arange(near.models.shape[0])
    halves = (place == (near.size - 1) // 2).astype(near.own.dtype) + (place == near.size // 2)
    return sum_of_ranked(near.models, near.counts, halves / 2)
