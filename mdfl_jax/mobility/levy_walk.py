"""Levy walk: many short flights and few very long ones.

Rhee, Shin, Hong, Lee, Kim and Chong, "On the Levy-walk nature of human mobility", IEEE/ACM Transactions on Networking
19(3), 2011: flight lengths and pauses have densities x^-(1 + exponent), truncated at both ends; directions are uniform.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.plane import PlaneClient, PlaneWorld, between, plane_mobility, unit
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


def truncated_pareto(key: jax.Array, exponent: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """A number of density x^-(1 + exponent) in [low, high], by inversion; exponent and low above 0."""
    shrunk = (high / low) ** -exponent
    drawn = low * (1 - jax.random.uniform(key) * (1 - shrunk)) ** (-1 / exponent)
    return jnp.clip(drawn, low, high)


@MOBILITIES.register("levy_walk")
def levy_walk() -> Mobility:
    """Flights in [flight_min, flight_max] metres at a speed U(speed_min, speed_max), pauses in [pause_min, pause_max].

    ``flight_exponent`` is the paper's alpha, ``pause_exponent`` its beta; no pauses where pause_max is 0.
    """

    def start(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del key, world, plan
        return client._replace(memory=jnp.bool_(False))

    def turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del plan
        motion = world.motion
        key_angle, key_speed, key_length, key_pause = jax.random.split(key, 4)
        pauses = client.memory & (motion.pause_max > 0)
        speed = between(key_speed, motion.speed_min, motion.speed_max)
        length = truncated_pareto(key_length, motion.flight_exponent, motion.flight_min, motion.flight_max)
        longest = jnp.where(motion.pause_max > 0, motion.pause_max, 1.0)
        shortest = jnp.where(motion.pause_min > 0, motion.pause_min, longest)
        pause = truncated_pareto(key_pause, motion.pause_exponent, shortest, longest)
        velocity = jnp.where(pauses, 0.0, speed) * unit(jax.random.uniform(key_angle, maxval=2 * jnp.pi))
        return client._replace(velocity=velocity, time_left=jnp.where(pauses, pause, length / speed), memory=~pauses)

    return plane_mobility(turn, start)
