"""Where most waits: the place around which static clients have waited longest for this client, discounted by the way.

Reasoning: a static client learns from elsewhere only through visits, so what a visit brings grows with the time since
the client's last one. Visits of others do not count, since they bring other models. A place in range of several such
clients serves them together. What is far costs rounds in which nobody is served, so each round of the way divides the
worth of a place. Destinations need not be cluster centres: a place between two clusters may be in range of parts of
both. The client thinks again in every round, since a place may be in range of the clients that it was heading for
before it gets there.

It must know the places of the static clients, and nothing of their labels.
"""

import jax

from mdfl_jax.core.numbers import number
from mdfl_jax.mobility.sight import Sight, best
from mdfl_jax.mobility.strategy import StrategyNumbers, strategy


class WaitingNumbers(StrategyNumbers):
    """The numbers of ``waiting``."""

    discount: float = number(0.5, "what a place's worth is multiplied by for each round of the way", above=0, at_most=1)
    impatience: float = number(2.0, "power of the time that a client has waited", above=0, at_most=8)


@strategy("waiting", WaitingNumbers, everywhere=True, replans=True)
def waiting(key: jax.Array, sight: Sight) -> jax.Array:
    """Go to the place in range of which static clients have waited longest for a visit, discounted by the way."""
    worth = sight.near(sight.age**sight.numbers.impatience)
    return best(key, worth * sight.numbers.discount**sight.travel, sight)
