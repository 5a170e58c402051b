"""Search intervals that need no tuning: of a client's own gap between meetings, and of how often it meets others.

FedMobile's theorem 1 is the better the smaller C = max(Delta - theta, Theta), and proposition 1 puts an interval's
middle at Delta / 2; but it takes for granted that a relay is met in every interval, which proposition 2 says happens
the more often the longer they are. The two together choose the length. Let a client's gap be Delta (it knows its next
meeting, or expects it), let it meet somebody with probability rho a slot, and let the interval be
[(1 - u) Delta / 2, (1 + u) Delta / 2]. With a relay in it, the oldest step that the server lacks is at most
C = (1 + u) Delta / 2 slots old; without one, Delta. A relay met s slots before the interval's end is in time if its own
next meeting is at most s away, which of a client met at random in a renewal process with gaps near Delta has
probability s / Delta, so that the interval has no relay with probability prod (1 - rho s / Delta), about
exp(-rho (u Delta)^2 / (2 Delta)) = exp(-k u^2) with k = rho Delta / 2. The mean of the bound,
Delta - (1 - exp(-k u^2)) (1 - u) Delta / 2, is least where 2 k u (1 - u) = exp(k u^2) - 1. That has one root in
(0, 2/3]: u tends to 2/3 where others are hardly met, and to 0 where they are met all the time. By the symmetry of
lemmas 1 and 2 the same interval serves downloads, seen from the next meeting.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.exchange.relay import Meetings, Search
from mdfl_jax.types import NEVER, Array

HALVINGS = 16  # of an interval that is measured in slots: 2/3 / 2^16 of a gap


def best_share(rate: Array) -> jax.Array:
    """The share u of a gap that is searched, the root in (0, 2/3] of 2 k u (1 - u) = exp(k u^2) - 1.

    Args:
      rate: k = rho Delta / 2 > 0, half the clients met in a gap; any shape.

    >>> [round(float(best_share(k)), 3) for k in (1e-3, 1.0, 10.0, 1000.0)]
    [0.667, 0.621, 0.421, 0.07]
    """
    k = jnp.asarray(rate, jnp.float32)

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        u = (low + high) / 2
        too_long = jnp.expm1(k * u * u) > 2 * k * u * (1 - u)
        return jnp.where(too_long, low, u), jnp.where(too_long, u, high)

    low, high = jax.lax.fori_loop(0, HALVINGS, halve, (jnp.zeros_like(k), jnp.full_like(k, 2 / 3)))
    return (low + high) / 2


def automatic(meetings: Meetings, contacts: jax.Array, slot: jax.Array) -> Search:
    """The search intervals of each client in this slot.

    Args:
      meetings: with the server; the gap is from the last to the next, or the others' mean gap where that is not known.
      contacts: [N] int32 slots so far, this one included, in which it met somebody.
      slot: [] int32.

    Returns:
      Intervals [N] int32. rho is estimated as (contacts + 1) / (slots + 2), the mean under a uniform prior.
    """
    known = meetings.following < NEVER
    gap = jnp.where(known, meetings.following - meetings.last, 0).astype(jnp.float32)
    mean = jnp.sum(gap) / jnp.maximum(jnp.sum(known), 1)
    gap = jnp.where(known, gap, mean)
    share = best_share((contacts + 1) / (slot + 3) * gap / 2)
    begin = jnp.floor((1 - share) * gap / 2).astype(jnp.int32)
    end = jnp.ceil((1 + share) * gap / 2).astype(jnp.int32)
    return Search(begin, end, begin, end)
