"""The round under way: what exchanges and local work may use besides their arguments, and what they tell.

A rule of aggregation may ask for the loss of a model on a client's own samples, for how far the run has come, and for
what it has kept from earlier rounds. It tells which models it has used. Local work asks for the minibatches of epochs.
None of this is of interest to the algorithm that calls it, so none of it passes through the algorithms. Outside of a
round that an engine traces, nothing is given and nothing is kept.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import Senders
from mdfl_jax.core.metric import CURVE, TABLE, UNKNOWN, Metric
from mdfl_jax.core.types import ClientParams


class Screened(NamedTuple):
    """What the rules of aggregation have done with the models that clients heard in a round.

    Attributes:
      used: [N, K] bool, over the places of the links: the models that were used. A client's own place is among them.
      alone: [N] bool, the clients that kept their own models, or took the fallback of the rule's paper, because they
        heard too few others for the rule. A client that heard nobody is not among them.
    """

    used: jax.Array
    alone: jax.Array

    def of_first(self, num_clients: int, senders: Senders) -> "Screened":
        """Return what the first N clients have done, without padding clients."""
        columns = slice(num_clients) if senders.ids is None else slice(None)
        return Screened(self.used[:num_clients, columns], self.alone[:num_clients])


@dataclass
class UnderWay:
    """The round that is traced.

    Attributes:
      loss: (models [N, ...]) -> [N], the loss of each model on the minibatch of the client of its row; None: unknown.
      epochs: (key, number of epochs, whether all clients take equally many steps) -> the minibatches of a round of
        local epochs (`mdfl_jax.data.batching.Epochs`); None: the task has none.
      progress: [] float32, the share of the run's rounds that are over; None: unknown.
      screened: what the exchanges so far have told; None: nothing.
      memory: [N, N] float32, what a rule of aggregation remembers of pairs of clients; an exchange replaces it. None:
        nothing is remembered.
    """

    loss: Callable[[ClientParams], jax.Array] | None = None
    epochs: Callable[[jax.Array, int, bool], Any] | None = None
    progress: jax.Array | None = None
    screened: Screened | None = None
    memory: jax.Array | None = None

    def tell(self, screened: Screened) -> None:
        """Add what one exchange has done to what those before it have."""
        if self.screened is not None:
            before = self.screened
            screened = Screened(before.used & screened.used, before.alone | screened.alone)
        self.screened = screened


_NOW: ContextVar[UnderWay | None] = ContextVar("round under way", default=None)


@contextlib.contextmanager
def traced(under_way: UnderWay) -> Iterator[UnderWay]:
    """Let the exchanges in a block belong to a round."""
    token = _NOW.set(under_way)
    try:
        yield under_way
    finally:
        _NOW.reset(token)


def now() -> UnderWay:
    """Return the round under way; outside of any, one that knows nothing and that nobody reads."""
    return _NOW.get() or UnderWay()


def _alone(view: Any) -> jax.Array:
    """Return [N] whether each client fell back, 0 or 1; NaN if the rule is one that does not tell."""
    screened = view.stats.screened
    return jnp.full(view.stats.loss.shape, jnp.nan) if screened is None else screened.alone.astype(jnp.float32)


FELL_BACK = Metric(
    "fell_back",
    lambda at: at.mean_over_rounds("fell_back"),
    UNKNOWN,
    each_round=_alone,
    label="rounds with too few heard for the rule (%)",
    scale=0.01,
    shown={TABLE, CURVE},
    optional=True,
)
"""[N] float32, the share of the rounds since the last evaluation in which a client heard others, but too few."""
