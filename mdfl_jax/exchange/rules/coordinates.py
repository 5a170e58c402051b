"""Coordinate by coordinate: the median."""

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
    """Take the median of each coordinate over the client's own model and those that it hears.

    Of an even number of models it is the mean of the two in the middle. It lies between honest values while fewer than
    half of the models are attackers'. With one neighbour it is the mean of two models, and one attacker moves it.
    """
    place = jnp.arange(near.models.shape[0])
    halves = (place == (near.size - 1) // 2).astype(near.own.dtype) + (place == near.size // 2)
    return sum_of_ranked(near.models, near.counts, halves / 2)
