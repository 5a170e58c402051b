"""Levy walk: many short flights and a few very long ones.

Flight lengths and pauses have densities that are powers, truncated at both ends.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Setting, number
from mdfl_jax.mobility.plane import PauseNumbers, PlaneClient, PlaneWorld, between, ordered, plane_mobility, unit
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


def truncated_pareto(key: jax.Array, exponent: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """Draw a number in [low, high] with a density proportional to x^-(1 + exponent), by inversion.

    Args:
      key: typed key of the draw.
      exponent: [] exponent of the distribution's tail, above 0.
      low: [] smallest value, above 0.
      high: [] largest value.

    Returns:
      [] the number drawn.
    """
    shrunk = (high / low) ** -exponent
    drawn = low * (1 - jax.random.uniform(key) * (1 - shrunk)) ** (-1 / exponent)
    return jnp.clip(drawn, low, high)


class LevyNumbers(PauseNumbers):
    """The numbers of the Levy walk."""

    flight_exponent: float = number(1.0, "density of flight lengths is l^-(1 + exponent)", above=0)
    flight_min: float = number(10.0, "shortest flight", above=0, unit="m")
    flight_max: float = number(500.0, "longest flight", above=0, unit="m")
    pause_exponent: float = number(1.0, "density of pauses is t^-(1 + exponent)", above=0)

    def check(self, setting: Setting) -> None:
        """Check that flight_min is at most flight_max, and that pauses, where there are any, have a pause_min above 0.

        A truncated power law has no density where its smallest value is 0.

        Raises:
          UserError: for numbers that do not fit together.
        """
        super().check(setting)
        ordered(self, "flight_min", "flight_max")
        if self.pause_max > 0 and self.pause_min == 0:
            raise UserError("motion.pause_min is 0.0; with pauses, levy_walk needs it greater than 0")


@MOBILITIES.register(
    "levy_walk",
    LevyNumbers,
    formula="density of flights l: l^-(1 + flight_exponent);  of pauses t: t^-(1 + pause_exponent);  direction ~ U",
    cite="rhee2011",
)
def levy_walk() -> Mobility:
    """Levy walk: straight flights with a power law of lengths, and pauses with a power law of durations in between.

    Flight lengths are in [flight_min, flight_max] metres, speeds are U(speed_min, speed_max), and pauses are in
    [pause_min, pause_max] seconds. ``flight_exponent`` is the paper's alpha, ``pause_exponent`` its beta. There are no
    pauses where pause_max is 0.
    """

    def start(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del key, world, plan
        return client._replace(memory=jnp.bool_(False))

    def turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del plan
        numbers = world.numbers
        key_angle, key_speed, key_length, key_pause = jax.random.split(key, 4)
        pauses = client.memory & (numbers.pause_max > 0)
        speed = between(key_speed, numbers.speed_min, numbers.speed_max)
        length = truncated_pareto(key_length, numbers.flight_exponent, numbers.flight_min, numbers.flight_max)
        longest = jnp.where(numbers.pause_max > 0, numbers.pause_max, 1.0)
        shortest = jnp.where(numbers.pause_min > 0, numbers.pause_min, longest)
        pause = truncated_pareto(key_pause, numbers.pause_exponent, shortest, longest)
        velocity = jnp.where(pauses, 0.0, speed) * unit(jax.random.uniform(key_angle, maxval=2 * jnp.pi))
        return client._replace(velocity=velocity, time_left=jnp.where(pauses, pause, length / speed), memory=~pauses)

    return plane_mobility(turn, start)
