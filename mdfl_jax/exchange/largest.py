"""Messages that carry a part of a model: as many coordinates as fit a contact, those that changed most first.

A client ranks its coordinates by their distance from the value that it has sent last, or from its first model. This is
the accumulated change of JWINS (Dhasade et al., 2023), without its wavelets. A ranking by the size of the parameters
would send the same coordinates in every round, and the others never. A ranking by what each peer knows would need a
model for each pair of clients. Where a sender sends no value, a receiver takes its own, as in JWINS.

The links of a round have the number of coordinates that each of them carries (`Parts`). A message has the bits of its
coordinates and of their indices (`mdfl_jax.core.message_bits.sparse_bits`).
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core import contract
from mdfl_jax.core.message_bits import Bits, count_within, sparse_bits, sum_bits
from mdfl_jax.core.sharding import by_rows, choose
from mdfl_jax.core.trees import ravel
from mdfl_jax.core.types import Algorithm, ClientParams, Exchanged, Extra, Links, Report, RoundContext, RoundStats
from mdfl_jax.exchange.gossip import mix


class PartState(NamedTuple):
    """The state of an algorithm whose messages may carry parts.

    Attributes:
      inner: the algorithm's own state.
      last: [N, n] the value of each coordinate that each client has sent last; before that, the first model's.
    """

    inner: Any
    last: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Parts(Extra):
    """How much of a model each link of a round carries.

    Attributes:
      counts: [N, K] int32, the number of coordinates.
    """

    counts: jax.Array


def mean(
    links: Links, own: ClientParams, sent: ClientParams, last: jax.Array | None = None, mixing_bound: int = 0
) -> Exchanged:
    """Compute x_i + sum_j W_ij m_ij (y_j - x_i), where m_ij are one at the coordinates that the link carries.

    If all links carry whole models, this is the weighted mean with the mixing matrix, bit for bit.

    Args:
      links: the links, with their `Parts`.
      own: [N, ...] the models x.
      sent: [N, ...] what the clients send, y.
      last: [N, n] the value of each coordinate that each client has sent last; None: that of ``own``.
      mixing_bound: as of `mdfl_jax.exchange.gossip.mix`.

    Returns:
      The models, [N, ...]; the memory of the report is ``last`` after this exchange.
    """
    senders, parts = links.senders, links.get(Parts)
    (x, unravel), (y, _) = ravel(own), ravel(sent)
    size = x.shape[1]
    assert parts is not None
    counts = parts.counts
    last = x if last is None else last
    carried = jnp.where(links.adjacency, counts, 0)
    most = jnp.max(senders.opposite(carried), axis=1)  # messages are nested: a longer one contains a shorter one

    def of_rows(rows: tuple[jax.Array, ...], whole: tuple[jax.Array, jax.Array]) -> jax.Array:
        mine, weights, carried, ids = rows
        (y, rank), places = whole, jnp.arange(weights.shape[1])

        def add(k: jax.Array, total: jax.Array) -> jax.Array:
            who = jnp.broadcast_to(places[k], mine.shape[:1]) if senders.ids is None else ids[:, k]
            inside = rank[who] < carried[:, k, None]
            return total + weights[:, k, None].astype(mine.dtype) * jnp.where(inside, y[who] - mine, 0)

        return jax.lax.fori_loop(0, len(places), add, mine)

    def in_parts() -> tuple[ClientParams, jax.Array]:
        rank = by_rows(lambda rows, _: _ranks(*rows), (y, last), ())
        ids = carried if senders.ids is None else senders.ids  # of a matrix they are not read
        found = unravel(by_rows(of_rows, (x, links.mix, carried, ids), (y, rank)))
        return found, jnp.where(rank < most[:, None], y, last)

    def in_whole() -> tuple[ClientParams, jax.Array]:
        return mix(links.mix, sent, mixing_bound, senders), jnp.where(most[:, None] > 0, y, last)

    models, memory = choose(jnp.any(links.adjacency & (counts < size)), in_parts, in_whole)
    return Exchanged(models, Report(memory=memory))


def _size(last: Any) -> tuple[int, int]:
    """Return the number of coordinates of ``last`` [N, n], and the bits of each."""
    return last.shape[1], int(jnp.finfo(last.dtype).bits)


def fitting(capacity: jax.Array, last: Any) -> jax.Array:
    """Return how many of the coordinates of `PartState.last` each link carries.

    Args:
      capacity: [N, K] bits (`mdfl_jax.core.types.Channel`).
      last: [N, n]; only its shape and type matter.

    Returns:
      [N, K] int32, at least 1: a link on which no coordinate fits does not exist.
    """
    size, width = _size(last)
    return jnp.maximum(count_within(size, capacity, width), 1)


def _ranks(sent: jax.Array, last: jax.Array) -> jax.Array:
    """Return [N, n] int32, the rank of each coordinate by falling |sent - last|; equal ones keep their order."""
    order = jnp.argsort(-jnp.abs(sent - last), axis=1, stable=True)
    rows = jnp.arange(sent.shape[0])[:, None]
    return jnp.zeros(sent.shape, jnp.int32).at[rows, order].set(jnp.arange(sent.shape[1], dtype=jnp.int32))


def in_parts(algorithm: Algorithm, part: Any) -> Algorithm:
    """Make an algorithm whose clients send as much of their models as the links carry (`mdfl_jax.core.types.Channel`).

    Args:
      algorithm: it mixes models once a round, by the rule ``mean``, and sends a whole model over each link.
      part: (models [N, ...]) -> the part of them that is exchanged (`mdfl_jax.algorithms.local.Settings.part`).

    Returns:
      The algorithm. It counts the bits that each link has carried.
    """

    def init(hparams: Any, client_params: ClientParams) -> PartState:
        return PartState(algorithm.init(hparams, client_params), ravel(part(client_params))[0])

    @functools.wraps(algorithm.round)
    def do_round(hparams: Any, state: PartState, links: Links, context: RoundContext) -> tuple[PartState, RoundStats]:
        if links.channel.capacity is None:  # no wrapper bounds the messages: whole models are sent
            inner, stats = algorithm.round(hparams, state.inner, links, context)
            return state._replace(inner=inner), stats
        size, width, counts = *_size(state.last), fitting(links.channel.capacity, state.last)
        remembering = context._replace(memory=state.last)
        inner, stats = algorithm.round(hparams, state.inner, links.adding(Parts(counts)), remembering)
        heard = links if stats.heard is None else stats.heard
        bits = Bits(*(jnp.where(heard.adjacency, word, 0) for word in sparse_bits(size, counts, width)))
        heard = heard.of_channel(bits=bits.rounded())
        last = contract.reported(algorithm.round, stats.report.memory, "by which messages in parts are remembered")
        return PartState(inner, last), stats._replace(bits=_sums(bits, heard), heard=heard)

    global_model = algorithm.global_model
    return algorithm._replace(
        init=init,
        round=do_round,
        params=lambda state: algorithm.params(state.inner),
        global_model=global_model and (lambda state: global_model(state.inner)),
        traits=algorithm.traits._replace(double_bits=None),
    )


def _sums(bits: Bits, heard: Links) -> Bits:
    """Return the exact bits that each client sends over all its links, from the bits of each link [N, K]."""
    return sum_bits(bits, heard.senders.sums)
