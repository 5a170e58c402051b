"""The interface of a rule that removes contacts from a network before its mixing matrix is made.

The rules themselves are in `mdfl_jax.costs.filters`: clients that are too slow, and contacts that are too short.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from mdfl_jax.types import Clients

Seconds = Callable[[], jax.Array]


class LinkFilter(NamedTuple):
    """A rule that removes contacts, as pure functions.

    The mixing matrix of a round is made from the contacts that are left. A filter removes both directions of a contact
    or none, so that it keeps the promise `mdfl_jax.types.SYMMETRIC` of a network.

    Attributes:
      init: (numbers, key, clients) -> the state before the first round. ``key`` is the key of the seed.
      step: (numbers, state, contact [N, N] bool, seconds) -> (the contacts that are left [N, N] bool, state).
        ``seconds`` is a function () -> [N, N] float32, the seconds of contact in the round; it is None in networks that
        do not know them.
      keeps_fixed: whether it removes the same contacts in every round, so that a network whose links are the same in
        every round keeps this promise (`mdfl_jax.types.FIXED`).
      needs_seconds: whether it calls ``seconds``.
    """

    init: Callable[[Any, jax.Array, Clients], Any]
    step: Callable[[Any, Any, jax.Array, Seconds | None], tuple[jax.Array, Any]]
    keeps_fixed: bool = False
    needs_seconds: bool = False
