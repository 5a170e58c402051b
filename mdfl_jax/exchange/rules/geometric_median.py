"""The geometric median: the point with the least sum of distances."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import number
from mdfl_jax.exchange.neighbourhood import Neighbourhood, RobustNumbers, for_one_client, mean_of


class GeometricMedianNumbers(RobustNumbers):
    """The numbers of smoothed Weiszfeld's algorithm."""

    weiszfeld_steps: int = number(8, "steps of Weiszfeld's algorithm", static=True, at_least=1)
    least_distance: float = number(1e-6, "distances below this count as this, nu", above=0)


@for_one_client(
    "geometric_median",
    GeometricMedianNumbers,
    weighs=False,
    formula="x_i+ = argmin_z sum over x_i and the y_j heard of ||z - y_j||;  "
    "z <- sum b_j y_j / sum b_j, b_j = 1 / max(nu, ||z - y_j||), from z = 0",
    cite="pillutla2022",
)
def geometric_median(near: Neighbourhood) -> jax.Array:
    """Take the point with the smallest sum of distances to the client's own model and the received models (RFA).

    Some steps of smoothed Weiszfeld's algorithm find the point. The steps begin at the origin, as in the code of He,
    Karimireddy and Jaggi, so that no attacker can move the start. All models have the same weight. The point stays near
    the honest models while fewer than half of the models are attackers'. With one neighbour, every point between the
    two models is a geometric median.
    """

    def step(_: int, z: jax.Array) -> jax.Array:
        distances = jnp.linalg.norm(near.models - z, axis=1)
        closeness = 1 / jnp.maximum(distances, jnp.asarray(near.numbers.least_distance, z.dtype))
        return mean_of(near.models, jnp.where(near.counts, closeness, 0))

    return jax.lax.fori_loop(0, near.numbers.weiszfeld_steps, step, jnp.zeros_like(near.own))
