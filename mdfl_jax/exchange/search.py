"""Automatic search intervals, from a client's gap between meetings with the server and its rate of contacts.

The bound of FedMobile's theorem 1 is smaller for a smaller C = max(Delta - theta, Theta), and by proposition 1 the
middle of an interval should be Delta / 2. But the theorem assumes that a relay is met in every interval, and by
proposition 2 this is more likely in longer intervals. Both results together give the length, as follows.

Let Delta be a client's gap between two meetings (it knows or expects its next meeting), let rho be its probability to
meet another client in a slot, and let the interval be [(1 - u) Delta / 2, (1 + u) Delta / 2]. If the client meets a
relay in it, the oldest step that the server lacks is at most C = (1 + u) Delta / 2 slots old; otherwise at most Delta.

A relay met s slots before the end of the interval is in time if its own next meeting is at most s slots away. For a
random client of a renewal process with gaps near Delta this has probability s / Delta. So the interval has no relay
with probability prod (1 - rho s / Delta), about exp(-rho (u Delta)^2 / (2 Delta)) = exp(-k u^2) with k = rho Delta / 2.

The mean of the bound, Delta - (1 - exp(-k u^2)) (1 - u) Delta / 2, is smallest where 2 k u (1 - u) = exp(k u^2) - 1.
This equation has one root in (0, 2/3]. The root u tends to 2/3 if contacts are rare, and to 0 if they are very
frequent. By the symmetry of lemmas 1 and 2 the same interval, counted back from the next meeting, is used for
downloads.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.core.types import NEVER, Array
from mdfl_jax.exchange.relay import Meetings, Search

HALVINGS = 16  # bisection steps; the interval, measured in slots, is then exact to 2/3 / 2^16 of a gap


def best_share(rate: Array) -> jax.Array:
    """Return the share u of a gap that is searched: the root in (0, 2/3] of 2 k u (1 - u) = exp(k u^2) - 1.

    Args:
      rate: k = rho Delta / 2 > 0, half the mean number of slots with a contact in a gap; any shape.

    Returns:
      u, float32, of the shape of ``rate``.

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
    """Compute the search intervals of each client in this slot.

    rho is estimated as (contacts + 1) / (slots + 2), the posterior mean under a uniform prior.

    Args:
      meetings: the meetings with the server. The gap of a client is the time from its last to its next meeting; if the
        next meeting is not known, it is the mean gap of the other clients.
      contacts: [N] int32 slots so far, including this one, in which the client met another client.
      slot: [] int32, from 0.

    Returns:
      The intervals, [N] int32 each.
    """
    known = meetings.following < NEVER
    gap = jnp.where(known, meetings.following - meetings.last, 0).astype(jnp.float32)
    mean = jnp.sum(gap) / jnp.maximum(jnp.sum(known), 1)
    gap = jnp.where(known, gap, mean)
    share = best_share((contacts + 1) / (slot + 3) * gap / 2)
    begin = jnp.floor((1 - share) * gap / 2).astype(jnp.int32)
    end = jnp.ceil((1 + share) * gap / 2).astype(jnp.int32)
    return Search(begin, end, begin, end)
