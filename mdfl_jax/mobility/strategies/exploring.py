"""Exploring: ``waiting`` without an oracle. Where clients may stand that were never met, is worth a visit too.

Reasoning: static clients stand still, so each one that a client does not know is at a grid point that was never in
range, and, before anything is known, at each of these with the same probability. It has waited since the first round.
So what a place is worth under ``waiting`` has an expected value here: that of the known clients in range, and for each
point in range that was never seen the unknown clients, divided by all such points. Once a client knows all others, it
moves as under ``waiting``.

It must know how many static clients there are, and nothing of them before it meets them.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.sight import NEVER, Sight, best
from mdfl_jax.mobility.strategies.waiting import WaitingNumbers
from mdfl_jax.mobility.strategy import strategy


@strategy("exploring", WaitingNumbers, replans=True, explores=True)
def exploring(key: jax.Array, sight: Sight) -> jax.Array:
    """Exploring: as waiting, but from meetings alone, and to where clients may stand that it has not met."""
    assert sight.ground is not None
    unseen = (sight.ground == NEVER).astype(jnp.float32)
    waited = (sight.round + 1.0) ** sight.numbers.impatience
    expected = sight.unknown / jnp.maximum(jnp.sum(unseen), 1.0) * waited * sight.around(unseen)
    worth = sight.near(sight.age**sight.numbers.impatience) + expected
    return best(key, worth * sight.numbers.discount**sight.travel, sight)
