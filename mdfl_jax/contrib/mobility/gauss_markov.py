"""Gauss-Markov movement: each velocity depends on the velocity of the round before.

The one-dimensional process of the source is applied to both components of the velocity.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.mobility.plane import PlaneClient, PlaneWorld, plane_mobility, unit
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


class GaussMarkovNumbers(Numbers):
    """The numbers of Gauss-Markov movement."""

    alpha: float = number(0.75, "memory of the velocity from round to round, 0 none, 1 constant", at_least=0, at_most=1)
    mean_speed: float = number(0.0, "speed of the mean velocity", at_least=0, unit="m/s")
    mean_direction: float = number(
        0.0, "direction of the mean velocity, counterclockwise from east", at_least=-360, at_most=360, unit="degrees"
    )
    speed_std: float = number(10.0, "standard deviation of each component of the velocity", at_least=0, unit="m/s")


@MOBILITIES.register(
    "gauss_markov",
    GaussMarkovNumbers,
    formula="v' = alpha v + (1 - alpha) mean + sqrt(1 - alpha^2) speed_std w, w ~ N(0, I)",
    cite="liang1999: eq. 4; camp2002",
)
def gauss_markov() -> Mobility:
    """Gauss-Markov movement: each velocity depends on the velocity of the round before.

    The mean velocity is ``mean_speed`` in the direction ``mean_direction``. In every round, from the first on, the
    velocity is normal around this mean, with standard deviation ``speed_std`` in each component. Its autocorrelation
    over k rounds is alpha^k. The process does not depend on the walls: the velocity of a reflected client is the mirror
    image of its process, the mean included.
    """

    def mean(world: PlaneWorld) -> jax.Array:
        return world.numbers.mean_speed * unit(jnp.deg2rad(world.numbers.mean_direction))

    def start(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del plan
        return client._replace(memory=mean(world) + world.numbers.speed_std * jax.random.normal(key, (2,)))

    def turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del plan
        alpha, noise = world.numbers.alpha, world.numbers.speed_std * jax.random.normal(key, (2,))
        free = alpha * client.memory + (1 - alpha) * mean(world) + jnp.sqrt(1 - alpha**2) * noise
        return client._replace(velocity=client.facing * free, memory=free)

    return plane_mobility(turn, start, each_round=True)
