"""Fading of the signal's power in a round: Nakagami's m, of which Rayleigh is m = 1.

The gain of a pair is drawn anew in each round, with mean one, and holds for the round and both directions.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from mdfl_jax.contrib.radios.radio import FADINGS
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, Setting, number

Draw = Callable[[jax.Array | int], jax.Array]


def exponential(draw: Draw, k: jax.Array | int) -> jax.Array:
    """Return exponential draws of mean one, from the k-th uniform draws."""
    return -jnp.log1p(-draw(k))


@FADINGS.register("rayleigh", formula="G ~ Exp(1)")
def rayleigh(numbers: Numbers, draw: Draw) -> jax.Array:
    """Many scattered paths and no direct one: the power gain is exponential."""
    return exponential(draw, 0)


class NakagamiNumbers(Numbers):
    """The numbers of ``nakagami``."""

    fading_shape: float = number(
        1.5, "Nakagami's m, a multiple of a half; 1 is Rayleigh, more is less fading", at_least=0.5, at_most=50
    )

    def check(self, setting: Setting) -> None:
        """Check that twice the shape is a whole number, since the gain is a sum of so many squares."""
        if 2 * self.fading_shape % 1:
            raise UserError(f"radio.fading_shape is {self.fading_shape:g}; it must be a multiple of 0.5")


@FADINGS.register("nakagami", NakagamiNumbers, formula="G ~ Gamma(m, mean 1)", cite="nakagami1960")
def nakagami(numbers: NakagamiNumbers, draw: Draw) -> jax.Array:
    """Nakagami's m fading: the power gain is a gamma number of shape m.

    It is the sum of m exponential numbers, and for half an m of half the square of a normal number, by Box and Muller.
    """
    whole = jnp.floor(numbers.fading_shape).astype(jnp.int32)
    half = numbers.fading_shape > whole
    angle = jnp.cos(2 * jnp.pi * draw(1))
    rest = jnp.where(half, exponential(draw, 0) * jnp.square(angle), 0)
    total = jax.lax.fori_loop(0, whole, lambda k, so_far: so_far + exponential(draw, k + 2), rest)
    return total / numbers.fading_shape
