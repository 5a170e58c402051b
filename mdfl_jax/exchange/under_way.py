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
from typing import Any

import jax

from mdfl_jax.exchange.screening import Screened


@dataclass
class UnderWay:
    """The round that is traced: what it gives, what is told it, and what is kept until the next one.

    Attributes:
      loss: (models [N, ...]) -> [N], the loss of each model on the minibatch of the client of its row, NaN where it has
        no samples; None: unknown.
        With epochs it also takes ``batch``, the minibatches, until local work says which they are.
      whole: (what is exchanged of models [N, ...]) -> whole models with the clients' own other leaves; None: all of a
        model is exchanged.
      epochs: (key, number of epochs, whether all clients take equally many steps) -> the minibatches of a round of
        local epochs (`mdfl_jax.data.batching.Epochs`); None: the task has none.
      progress: [] float32, the share of the run's rounds that are over; None: unknown.
      screened: what the exchanges so far have told; None: nothing.
      memory: what an exchange remembers, and the next one replaces. A rule of aggregation remembers a number of each
        pair of clients (`mdfl_jax.exchange.aggregation.Memory`), and clients that send parts of their models what they
        have last sent (`mdfl_jax.exchange.largest`). None: nothing is remembered.
    """

    loss: Callable[..., jax.Array] | None = None
    whole: Callable[[Any], Any] | None = None
    epochs: Callable[[jax.Array, int, bool], Any] | None = None
    progress: jax.Array | None = None
    screened: Screened | None = None
    memory: jax.Array | None = None

    def tell(self, screened: Screened) -> None:
        """Add what one exchange has done to what those before it have."""
        self.screened = screened.joined(self.screened)


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
