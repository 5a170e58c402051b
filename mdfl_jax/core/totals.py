"""Sums over the rounds of a run that do not lose digits."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Total(NamedTuple):
    """A sum of many numbers in single precision, with the rounding error of the last additions (Kahan's summation).

    Without the second number, a sum over 10^6 short rounds would be wrong by some per cent.

    Attributes:
      value: the sum.
      excess: the rounding error of ``value``, which is too large by it.
    """

    value: jax.Array
    excess: jax.Array


def no_total(*shape: int) -> Total:
    """Return a sum of no numbers, of the given shape."""
    return Total(jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32))


def add(total: Total, more: jax.Array) -> Total:
    """Add a number to a sum, with the rounding error of the earlier additions."""
    due = more.astype(jnp.float32) - total.excess
    value = total.value + due
    return Total(value, (value - total.value) - due)
