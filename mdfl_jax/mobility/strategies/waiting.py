"""Where most waits: the place around which static clients have waited longest for this client, discounted by the way.

Reasoning: a static client learns from elsewhere only through visits, so the worth of a visit grows with the time since
the last visit of the same mobile client. Visits of other mobile clients do not count, since they bring other models. A
place in range of several static clients serves them together. On a long way nobody is served for many rounds, so each
round of the way divides the worth of a place. Destinations need not be cluster centres: a place between two clusters
may be in range of parts of both. The client chooses again in every round, since it may be in range of the clients that
it was heading for before it arrives.

The client must know the places of the static clients, and nothing of their labels.

The client can also explore: a point that was never in range may have an unknown static client near it, so it is worth a
visit. Static clients stand still, so each unknown client stands at a point that was never in range, at each such point
with the same probability, and has waited since the first round. So the worth of a place has an expected value: the
worth of the known clients in range, plus for each unseen point in range the worth of the unknown clients divided by the
number of unseen points. A client that knows all others moves as if it had known them from the first round. It must know
how many static clients there are, and nothing of them before it meets them.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import number
from mdfl_jax.mobility.choosing import NOT_SEEN, Sight, StrategyNumbers, best
from mdfl_jax.mobility.registry import strategy
from mdfl_jax.mobility.rule import KNOWLEDGE


class WaitingNumbers(StrategyNumbers):
    """The numbers of ``waiting``."""

    discount: float = number(0.5, "what a place's worth is multiplied by for each round of the way", above=0, at_most=1)
    impatience: float = number(2.0, "power of the time that a client has waited", above=0, at_most=8)


def expected_unmet(sight: Sight) -> jax.Array:
    """Return what the clients that were never met are expected to be worth in range of each candidate, [K]."""
    assert sight.ground is not None
    unseen = (sight.ground == NOT_SEEN).astype(jnp.float32)
    waited = (sight.round + 1.0) ** sight.numbers.impatience
    return sight.unknown / jnp.maximum(jnp.sum(unseen), 1.0) * waited * sight.around(unseen)


@strategy(
    "waiting",
    WaitingNumbers,
    knowledge=KNOWLEDGE,
    formula="score(L) = discount^t(L) sum over j in S(L) of a_j^impatience",
    everywhere=True,
    replans=True,
)
def _waiting(key: jax.Array, sight: Sight) -> jax.Array:
    """Go to the place in range of which static clients have waited longest for a visit, discounted by the way."""
    worth = sight.near(sight.age**sight.numbers.impatience)
    if sight.ground is not None:
        worth = worth + expected_unmet(sight)
    return best(key, worth * sight.numbers.discount**sight.travel, sight)
