"""Coverage: where the ground has not been in range for longest, discounted by the way. It knows nothing of the clients.

Reasoning: a client that knows neither places nor labels can still avoid where it has just been. The time since a place
was last in range is what the patrolling of robots calls its idleness. A place is worth the idleness of all points in
range of it, each to a power, divided for each round of the way. So a client sweeps the area instead of crossing it at
random as under ``waypoint``, which knows as little. ``motion.knowledge`` has no effect on it.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import number
from mdfl_jax.mobility.choosing import NOT_SEEN, Sight, StrategyNumbers, best
from mdfl_jax.mobility.registry import strategy

_LONGEST = 255  # rounds; a place that was out of range for longer, or always, is as idle as this


class CoverageNumbers(StrategyNumbers):
    """The numbers of ``coverage``."""

    discount: float = number(0.5, "what a place's worth is multiplied by for each round of the way", above=0, at_most=1)
    impatience: float = number(2.0, "power of the time that a place was out of range", above=0, at_most=8)


@strategy(
    "coverage",
    CoverageNumbers,
    knowledge=(),
    formula="score(L) = discount^t(L) sum over points q in range of L of (rounds since q was in range)^impatience",
    cite="machado2002",
    replans=True,
)
def coverage(key: jax.Array, sight: Sight) -> jax.Array:
    """Coverage: to where the ground has not been in range for longest, discounted by the way; no client is known."""
    assert sight.ground is not None
    idle = jnp.where(sight.ground == NOT_SEEN, _LONGEST, jnp.minimum(sight.ground, _LONGEST)).astype(jnp.float32)
    worth = sight.around(idle**sight.numbers.impatience)
    return best(key, worth * sight.numbers.discount**sight.travel, sight)
