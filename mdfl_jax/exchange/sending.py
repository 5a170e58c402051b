"""Maps of what clients send: every vector that leaves a client in a round passes through `sent`.

`sent` composes the maps, such as an attacker's. A compressor is applied after all maps. Compressors have a type of
their own, since they also count the bits of messages (`mdfl_jax.exchange.compressors`). Without maps, no operation is
added to the program.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from mdfl_jax.core import contract
from mdfl_jax.core.rng import number_of, own_draws
from mdfl_jax.core.types import ClientParams, Links

SENDING = number_of("sending")  # folded into the key, so that maps and algorithms draw different numbers

# (the algorithm's numbers, key, links, vectors [N, ...]) -> what the clients send in their place, [N, ...]
Sending = Callable[[Any, jax.Array, Links, ClientParams], ClientParams]


def sent(
    maps: Sequence[Sending],
    hparams: Any,
    key: jax.Array,
    links: Links,
    vectors: ClientParams,
    which: int | jax.Array = 0,
) -> ClientParams:
    """Return what the clients send in place of their vectors.

    Args:
      maps: the maps, which are applied one after another. A map reads the vectors of all clients, as an attacker who
        knows everything does, and must return a tree of the same shapes.
      hparams: the algorithm's numbers.
      key: the key of the round. Each map gets a key of its own.
      links: the links of the round.
      vectors: [N, ...] stacked trees or a matrix [N, n]: models, gradients, updates or innovations.
      which: the index of the vectors, for algorithms that send several in a round.

    Returns:
      The vectors themselves if there are no maps.

    Raises:
      UserError: if a map returns other shapes.
    """
    for index, change in enumerate(maps):
        # A key for each map and each of the round's exchanges, apart from the algorithm's own draws.
        own = jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(own_draws(key), SENDING), which), index)
        changed = change(hparams, own, links, vectors)
        contract.like(change, changed, vectors)
        vectors = changed
    return vectors
