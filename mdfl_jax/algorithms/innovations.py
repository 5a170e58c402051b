"""What algorithms share that compress their messages: everybody holds an estimate of each neighbour, and hears changes.

Client j sends q_j = C(x_j - x_hat_j), and it and all who hear it add q_j to x_hat_j. All copies of x_hat_j are equal,
so the simulation keeps one row a client. That takes a network with the same links in every round in which there are
any; in a round without links nothing is sent and no estimate changes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, CompressedNumbers, Settings, decayed_gradient
from mdfl_jax.exchange.compressors import COMPRESSORS, Compressor, num_kept
from mdfl_jax.exchange.flat import ravel
from mdfl_jax.exchange.gossip import mix
from mdfl_jax.exchange.meter import Bits, count_bits, double_dense_bits, double_sparse_bits, messages_sent
from mdfl_jax.numbers import Numbers
from mdfl_jax.types import FIXED, SYMMETRIC, Algorithm, ClientParams, Gradient, Links

NEEDS = frozenset({"adjacency", "mix", SYMMETRIC, FIXED})


class Sent(NamedTuple):
    """What sending innovations left behind.

    Attributes:
      estimate: [N, n] x_hat, with what was sent.
      messages: [N] int32.
      bits: of these messages.
    """

    estimate: jax.Array
    messages: jax.Array
    bits: Bits


def compressor_of(settings: Settings, numbers: type[CompressedNumbers]) -> Compressor:
    """The compressor of the settings, or the algorithm's own."""
    return COMPRESSORS[settings.compressor or numbers.own_compressor]


def send(
    compressor: Compressor,
    numbers: Numbers,
    key: jax.Array,
    x: jax.Array,
    estimate: jax.Array,
    links: Links,
    speaks: jax.Array | bool = True,
) -> Sent:
    """x_hat <- x_hat + C(x - x_hat) of every client that has somebody to hear it.

    Args:
      compressor: C.
      numbers: of the compressor.
      key: for its draws.
      x: [N, n] what is to be told.
      estimate: [N, n] x_hat.
      links: of this round.
      speaks: [] or [N] bool, who sends if it has links.
    """
    message = compressor.compress(numbers, key, x - estimate)
    receivers = jnp.where(speaks, messages_sent(links.adjacency), 0)
    updated = jnp.where((receivers > 0)[:, None], estimate + message.value, estimate)
    return Sent(updated, receivers, count_bits(receivers, compressor.bits(numbers, message)))


def pull(links: Links, estimate: jax.Array, settings: Settings) -> jax.Array:
    """(W - I) x_hat: towards the neighbours' estimates, [N, n]; zero in a round without links."""
    return mix(links.mix, estimate, settings.mixing_bound) - estimate


def flat_gradient(
    hparams: AlgorithmNumbers,
    key: jax.Array,
    client_params: ClientParams,
    gradient: Gradient,
    step: jax.Array,
    index: int | jax.Array = 0,
) -> tuple[jax.Array, jax.Array]:
    """(loss [N], gradients [N, n]) with the weight decay, on the minibatch of a local step of the round.

    Args:
      hparams, gradient, step: as `mdfl_jax.algorithms.local.decayed_gradient`.
      key: of the round.
      client_params: [N, ...].
      index: of the local step.
    """
    loss, found = decayed_gradient(gradient, hparams, step)(client_params, jax.random.fold_in(key, index))
    return loss, ravel(found)[0]


def finished(algorithm: Algorithm, settings: Settings, numbers: type[CompressedNumbers]) -> Algorithm:
    """The algorithm with PaME's count of a message in double precision, where its compressor is one that it covers."""
    name = settings.compressor or numbers.own_compressor
    if name in ("random_k", "top_k"):
        count = lambda h, n: double_sparse_bits(float(num_kept(h.compressor.transmission, n)), n)  # noqa: E731
        return algorithm._replace(double_bits=count)
    return algorithm._replace(double_bits=double_dense_bits if name == "identity" else None)
