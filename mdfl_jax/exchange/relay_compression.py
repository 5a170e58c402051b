"""Compression of updates before they are relayed, to make them short or private (FedMobile appendix E).

A client's private update n_i is the sum of its own local steps since it last sent an update. When the client gives its
cumulative update m_i to a relay, it replaces n_i by C(n_i): it sends m_i + eps with eps = C(n_i) - n_i, and keeps
m_i = -eps and n_i = 0. Its next upload to the server corrects the error, so nothing is lost.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.message_bits import dense_bits
from mdfl_jax.core.numbers import Numbers
from mdfl_jax.core.sharding import choose
from mdfl_jax.core.trees import ravel, rows_like
from mdfl_jax.core.types import ClientParams
from mdfl_jax.exchange.compressors import COMPRESSORS, bits_of, compressed
from mdfl_jax.exchange.relay import Relays


class Private(NamedTuple):
    """The state that clients keep for the compression.

    Attributes:
      update: [N, ...] n_i.
      mixed: [N] bool, whether m_i holds more than n_i: updates of others, or an earlier error of its own.
    """

    update: ClientParams
    mixed: jax.Array


def no_private(client_params: ClientParams) -> Private:
    """Return the state before the first local step, for models ``client_params`` [N, ...]: all n_i are zero."""
    num_clients = jax.tree.leaves(client_params)[0].shape[0]
    return Private(jax.tree.map(jnp.zeros_like, client_params), jnp.zeros(num_clients, bool))


def manipulate(
    compressor: str, numbers: Numbers, key: jax.Array, private: Private, relays: Relays
) -> tuple[ClientParams, jax.Array]:
    """Compress the private updates of a slot, and count the bits of relayed updates.

    Args:
      compressor: a name of `COMPRESSORS`.
      numbers: the compressor's numbers.
      key: the key of the slot's random draws.
      private: the state before the slot's exchanges.
      relays: the exchanges of the slot. If no client gives an update, nothing is compressed (except on a mesh).

    Returns:
      (eps [N, ...], [N] uint32 bits of a relayed update). The bits are those of C(n_i) where m_i = n_i. Otherwise they
      are those of a whole model, since the message also holds updates of others or an earlier error.
    """
    rule, whole = COMPRESSORS[compressor], dense_bits(private.update)

    def make() -> tuple[ClientParams, jax.Array]:
        rows, unravel = ravel(private.update)
        message = compressed(rule, numbers, key, rows)
        bits = jnp.where(private.mixed, jnp.uint32(whole), bits_of(rule, numbers, message))
        return unravel(message.value - rows), bits

    def nothing() -> tuple[ClientParams, jax.Array]:
        return jax.tree.map(jnp.zeros_like, private.update), jnp.full(private.mixed.shape, whole, jnp.uint32)

    return choose(jnp.any(relays.gives), make, nothing)


def after_exchange(private: Private, uploads: jax.Array, relays: Relays) -> Private:
    """Return the state after a slot's exchanges: n_i is zero where it was uploaded or relayed; ``mixed`` is updated.

    Args:
      private: the state before the exchanges.
      uploads: [N] bool, the clients that uploaded to the server.
      relays: the exchanges of the slot; a client that gave its update keeps an error.
    """
    gets = jnp.zeros_like(private.mixed).at[relays.to].max(relays.gives)
    clear = uploads | relays.gives
    update = jax.tree.map(lambda n: jnp.where(rows_like(clear, n), 0, n), private.update)
    return Private(update, (private.mixed & ~clear) | relays.gives | gets)
