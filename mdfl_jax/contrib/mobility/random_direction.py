"""Random direction: legs of random direction, speed and duration, reflected or wrapped at the walls.

With reflecting and with wrapping walls places and directions stay uniform, as the source shows. (Royer's variant of
2001 is another model: its legs end at the wall, and its clients concentrate there.)
"""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import number
from mdfl_jax.mobility.plane import PauseNumbers, PlaneClient, PlaneWorld, between, plane_mobility, unit
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


class DirectionNumbers(PauseNumbers):
    """The numbers of random direction."""

    leg_time: float = number(10.0, "mean duration of a leg", above=0, unit="s")


@MOBILITIES.register(
    "random_direction",
    DirectionNumbers,
    formula="direction ~ U, speed ~ U(speed_min, speed_max)\n"
    "duration ~ Exp(mean leg_time), pause ~ U(pause_min, pause_max)",
    cite="nain2005",
)
def random_direction() -> Mobility:
    """Random direction: legs in uniform directions, of exponential durations, with pauses in between.

    Without pauses the movement is stationary from the start, because exponential durations have no memory.
    """

    def start(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del key, world, plan
        return client._replace(memory=jnp.bool_(False))

    def turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del plan
        numbers = world.numbers
        key_angle, key_speed, key_time, key_pause = jax.random.split(key, 4)
        heading = unit(jax.random.uniform(key_angle, maxval=2 * jnp.pi))
        pauses = client.memory & (numbers.pause_max > 0)
        speed = jnp.where(pauses, 0.0, between(key_speed, numbers.speed_min, numbers.speed_max))
        time = jax.random.exponential(key_time) * numbers.leg_time
        pause = between(key_pause, numbers.pause_min, numbers.pause_max)
        return client._replace(velocity=speed * heading, time_left=jnp.where(pauses, pause, time), memory=~pauses)

    return plane_mobility(turn, start)
