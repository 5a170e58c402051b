"""Updates that are changed before they are relayed, to make them short or private (FedMobile appendix E).

A client's private update n_i is what its own steps amount to since it last sent it. When it gives its update m_i to a
relay, C(n_i) stands for n_i: it sends m_i + eps with eps = C(n_i) - n_i, and keeps m_i = -eps, n_i = 0. So the error is
made good at its next meeting with the server, and nothing is lost.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.exchange.compressors import COMPRESSORS
from mdfl_jax.exchange.flat import ravel
from mdfl_jax.exchange.meter import dense_bits
from mdfl_jax.exchange.relay import Relays
from mdfl_jax.numbers import Numbers
from mdfl_jax.rows import rows_like
from mdfl_jax.sharding import choose
from mdfl_jax.types import ClientParams


class Private(NamedTuple):
    """What a client keeps for it.

    Attributes:
      update: [N, ...] n_i.
      mixed: [N] bool, whether m_i holds more than n_i: updates of others, or an error of its own.
    """

    update: ClientParams
    mixed: jax.Array


def no_private(client_params: ClientParams) -> Private:
    """Nothing done yet."""
    num_clients = jax.tree.leaves(client_params)[0].shape[0]
    return Private(jax.tree.map(jnp.zeros_like, client_params), jnp.zeros(num_clients, bool))


def manipulate(
    compressor: str, numbers: Numbers, key: jax.Array, private: Private, relays: Relays
) -> tuple[ClientParams, jax.Array]:
    """The errors of a slot, and the lengths of what is sent.

    Args:
      compressor: a name of `COMPRESSORS`.
      numbers: of the compressor.
      key: of the slot.
      private: before the slot's exchanges.
      relays: of the slot; where nobody gives, nothing is drawn (but on a mesh).

    Returns:
      (eps [N, ...], [N] uint32 bits of a relayed update): those of C(n_i) where m_i = n_i, and else those of a whole
      model, since what others sent, or an earlier error, is in the same message.
    """
    rule, whole = COMPRESSORS[compressor], dense_bits(private.update)

    def make() -> tuple[ClientParams, jax.Array]:
        rows, unravel = ravel(private.update)
        message = rule.compress(numbers, key, rows)
        bits = jnp.where(private.mixed, jnp.uint32(whole), rule.bits(numbers, message))
        return unravel(message.value - rows), bits

    def nothing() -> tuple[ClientParams, jax.Array]:
        return jax.tree.map(jnp.zeros_like, private.update), jnp.full(private.mixed.shape, whole, jnp.uint32)

    return choose(jnp.any(relays.gives), make, nothing)


def after_exchange(private: Private, uploads: jax.Array, relays: Relays) -> Private:
    """n_i = 0 where it was uploaded or relayed, and who holds more than its own.

    Args:
      private: before.
      uploads: [N] bool, who uploaded to the server.
      relays: of the slot; those that gave keep an error.
    """
    gets = jnp.zeros_like(private.mixed).at[relays.to].max(relays.gives)
    clear = uploads | relays.gives
    update = jax.tree.map(lambda n: jnp.where(rows_like(clear, n), 0, n), private.update)
    return Private(update, (private.mixed & ~clear) | relays.gives | gets)
