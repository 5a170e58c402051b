"""The interface of a rule that removes contacts from a network before its mixing matrix is made.

The rules themselves are in `mdfl_jax.networks.costs.filters`: clients that are too slow, and contacts that are too
short.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from mdfl_jax.core.links import Senders
from mdfl_jax.core.types import Clients

Seconds = Callable[[], jax.Array]


class LinkFilter(NamedTuple):
    """A rule that removes contacts, as pure functions.

    The mixing matrix of a round is made from the contacts that are left. A filter removes both directions of a contact
    or none, so that it keeps the promise `mdfl_jax.core.types.SYMMETRIC` of a network.

    Attributes:
      init: (numbers, key, clients, K) -> the state before the first round. ``key`` is the key of the seed; K is 0 if
        links are matrices.
      step: (numbers, state, contact [N, K] bool, seconds, senders) -> (the contacts that are left [N, K], state).
        ``senders`` tells the clients for which the K places stand (`mdfl_jax.core.links`), which may be other ones in
        each round. ``seconds`` is a function () -> [N, K] float32, the seconds of contact in the round; it is None in
        networks that do not know them.
      keeps_fixed: whether it removes the same contacts in every round, so that a network whose links are the same in
        every round keeps this promise (`mdfl_jax.core.types.FIXED`).
      needs_seconds: whether it calls ``seconds``.
    """

    init: Callable[[Any, jax.Array, Clients, int], Any]
    step: Callable[[Any, Any, jax.Array, Seconds | None, Senders], tuple[jax.Array, Any]]
    keeps_fixed: bool = False
    needs_seconds: bool = False
