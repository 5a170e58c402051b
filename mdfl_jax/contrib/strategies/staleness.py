"""Staleness: where models differed most from the client's own when it last heard them. It needs no labels.

Reasoning: label distances only guess how much two models will differ; a client that mixes hears the other's model and
can measure it. Where models were far from its own, an exchange moves both most. Clients that it has not heard yet count
as the largest difference that it remembers. A memory grows old: the other model goes on learning alone, so the
difference may count more, the longer ago it was measured.

It must know the places of the static clients, and the models that it heard, which it hears in any case. No labels.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import number
from mdfl_jax.mobility.choosing import NOT_SEEN, Sight, StrategyNumbers, best
from mdfl_jax.mobility.registry import strategy


class StalenessNumbers(StrategyNumbers):
    """The numbers of ``staleness``."""

    ageing: float = number(
        1.0, "power of the rounds since the difference was measured; 0: it stays", at_least=0, at_most=8
    )


@strategy(
    "staleness",
    StalenessNumbers,
    formula="score(L) = mean over j in S(L) of ||x_i - x_j|| a_j^ageing, over the cluster centres",
    compares=True,
)
def _staleness(key: jax.Array, sight: Sight) -> jax.Array:
    """Staleness: to the cluster centre where models differed most from its own, times the rounds since then."""
    assert sight.difference is not None
    largest = jnp.maximum(jnp.max(sight.difference), 1e-6)
    differs = jnp.where(sight.difference == NOT_SEEN, largest, sight.difference)
    worth = jnp.where(sight.known, differs * sight.age**sight.numbers.ageing, 0.0)
    clients = jnp.maximum(sight.near(sight.known.astype(worth.dtype)), 1.0)
    return best(key, sight.near(worth) / clients, sight)
