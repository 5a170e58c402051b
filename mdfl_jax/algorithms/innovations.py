"""Shared parts of the algorithms that send compressed innovations.

Every client holds an estimate x_hat_j of the vector x_j of each neighbour j. Client j sends the innovation
q_j = C(x_j - x_hat_j), and client j and all clients that hear it add q_j to x_hat_j. All copies of x_hat_j are equal,
so the simulation keeps one row a client. One row is correct only on a network that has the same links in every round
that has links. In a round without links nothing is sent and no estimate changes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, CompressedNumbers, Settings, decayed_gradient
from mdfl_jax.core.message_bits import Bits, count_bits, double_dense_bits, double_sparse_bits, messages_sent
from mdfl_jax.core.trees import ravel
from mdfl_jax.core.types import FIXED, SYMMETRIC, Algorithm, ClientParams, Links, RoundContext
from mdfl_jax.exchange.compressors import COMPRESSORS, Compressor, bits_of, compressed, num_kept
from mdfl_jax.exchange.gossip import mix

NEEDS = frozenset({"adjacency", "mix", SYMMETRIC, FIXED})


class Sent(NamedTuple):
    """The result of sending innovations.

    Attributes:
      estimate: [N, n] x_hat after the innovations are added.
      messages: [N] int32 messages that each client sent.
      bits: the bits of these messages, a count a client.
    """

    estimate: jax.Array
    messages: jax.Array
    bits: Bits


def compressor_of(settings: Settings, numbers: type[CompressedNumbers]) -> Compressor:
    """Return the compressor that the settings name, or the algorithm's default where they name none."""
    return COMPRESSORS[settings.compressor or numbers.own_compressor]


def send(
    settings: Settings,
    compressor: Compressor,
    hparams: CompressedNumbers,
    key: jax.Array,
    x: jax.Array,
    estimate: jax.Array,
    links: Links,
    speaks: jax.Array | bool = True,
) -> Sent:
    """Send innovations: x_hat <- x_hat + C(x - x_hat) for every client that another client hears.

    Args:
      settings: the algorithm's settings, with the maps of what is sent before it is compressed.
      compressor: C.
      hparams: the algorithm's numbers, with those of the compressor.
      key: the key of the random draws.
      x: [N, n] the vectors that the estimates should follow.
      estimate: [N, n] x_hat.
      links: the links of this round.
      speaks: [] or [N] bool, the clients that send if they have links.

    Returns:
      The new estimates, and the messages and bits sent.
    """
    innovation = settings.sent(hparams, key, links, x - estimate)
    message = compressed(compressor, hparams.compressor, key, innovation)
    receivers = jnp.where(speaks, messages_sent(links.adjacency, links.senders), 0)
    updated = jnp.where((receivers > 0)[:, None], estimate + message.value, estimate)
    return Sent(updated, receivers, count_bits(receivers, bits_of(compressor, hparams.compressor, message)))


def pull(links: Links, estimate: jax.Array, settings: Settings) -> jax.Array:
    """Return (W - I) x_hat, the step towards the neighbours' estimates: [N, n], zero in a round without links."""
    return mix(links.mix, estimate, settings.mixing_bound, links.senders) - estimate


def flat_gradient(
    hparams: AlgorithmNumbers,
    context: RoundContext,
    client_params: ClientParams,
    step: jax.Array,
    index: int | jax.Array = 0,
) -> tuple[jax.Array, jax.Array]:
    """Compute gradients with weight decay, as vectors, on the minibatch of one local step of the round.

    Args:
      hparams, step: as for `mdfl_jax.algorithms.local.decayed_gradient`.
      context: the round, with its key and its gradient function.
      client_params: [N, ...] the models.
      index: the index of the local step, from 0.

    Returns:
      (loss [N], gradients [N, n]).
    """
    own = jax.random.fold_in(context.key, index)
    loss, found = decayed_gradient(context.gradient, hparams, step)(client_params, own)
    return loss, ravel(found)[0]


def finished(algorithm: Algorithm, settings: Settings, numbers: type[CompressedNumbers]) -> Algorithm:
    """Add PaME's count of bits in double precision to an algorithm, if that count covers its compressor.

    The count covers random_k, top_k and identity; for other compressors ``double_bits`` is None.
    """
    name = settings.compressor or numbers.own_compressor
    count: Callable[[Any, int], float] | None
    if name in ("random_k", "top_k"):
        count = lambda h, n: double_sparse_bits(float(num_kept(h.compressor.transmission, n)), n)  # noqa: E731
    else:
        count = double_dense_bits if name == "identity" else None
    return algorithm._replace(traits=algorithm.traits._replace(double_bits=count))
