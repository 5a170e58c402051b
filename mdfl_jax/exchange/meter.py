"""The meter: what really crosses each directed link, in messages and in bits, exactly.

A round of a large model sends more bits than 32 of them count, and a float would round, so a count is a pair of words,
`Bits`. A message counts once a directed link, also where a radio could serve several receivers with one transmission.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

WORD = 16  # bits of the low word


class Bits(NamedTuple):
    """Whole numbers below 2^48, high * 2^16 + low; carried by `add_bits`.

    Attributes:
      high: [N] uint32.
      low: [N] uint32, below 2^16.
    """

    high: Any
    low: Any


def no_bits(num_clients: int) -> Bits:
    """Nothing sent yet."""
    return Bits(jnp.zeros(num_clients, jnp.uint32), jnp.zeros(num_clients, jnp.uint32))


def count_bits(messages: jax.Array, size: jax.Array | int) -> Bits:
    """Messages of a size each, exactly: a product of 32 bits by 32, of which 48 are kept.

    Args:
      messages: [N] whole numbers.
      size: bits of a message, below 2^32, one for all or [N].

    >>> float(total_bits(words(count_bits(jnp.array([70_000]), 4_000_000_000)))[0])
    280000000000000.0
    """
    m, b = jnp.asarray(messages).astype(jnp.uint32), jnp.asarray(np.uint32(size) if isinstance(size, int) else size)
    b = jnp.broadcast_to(b.astype(jnp.uint32), m.shape)
    m_high, m_low, b_high, b_low = m >> WORD, m & 0xFFFF, b >> WORD, b & 0xFFFF
    low = m_low * b_low
    return Bits(((m_high * b_high) << WORD) + m_high * b_low + m_low * b_high + (low >> WORD), low & 0xFFFF)


def add_bits(a: Bits, b: Bits) -> Bits:
    """The sum of two counts."""
    low = a.low + b.low
    return Bits(a.high + b.high + (low >> WORD), low & 0xFFFF)


def words(bits: Bits) -> jax.Array:
    """Counts as one array, [N, 2] uint32, high word first."""
    return jnp.stack(bits, axis=-1)


def total_bits(words: Any) -> np.ndarray:
    """Counts [..., 2], as `words` gives them, as float64 [...] on the host: exact below 2^53."""
    return np.asarray(words)[..., 0].astype(np.float64) * 2**WORD + np.asarray(words)[..., 1]


def messages_sent(adjacency: jax.Array) -> jax.Array:
    """[N] int32 messages that each client sends when everybody sends to everyone that hears it: column sums."""
    return jnp.sum(adjacency, axis=0, dtype=jnp.int32)


def num_coordinates(client_params: Any) -> int:
    """Coordinates of one client's model, d, of stacked trees [N, ...]."""
    return sum(leaf[0].size for leaf in jax.tree.leaves(client_params))


def float_bits(client_params: Any) -> int:
    """Bits of a coordinate: the width of the models' floats, 32 or 64."""
    return int(jnp.finfo(jax.tree.leaves(client_params)[0].dtype).bits)


def dense_bits(client_params: Any) -> int:
    """Bits of a whole model."""
    return num_coordinates(client_params) * float_bits(client_params)


def index_bits(size: int, count: jax.Array | int) -> jax.Array:
    """Bits that say which ``count`` of ``size`` coordinates a message holds: a bitmap or a list, the shorter.

    >>> int(index_bits(1000, 10)), int(index_bits(1000, 500)), int(index_bits(1000, 1000))
    (100, 1000, 0)
    """
    width = max((size - 1).bit_length(), 1)
    count = jnp.asarray(count, jnp.uint32)
    # Beyond size / width entries a list is the longer, and its product could overflow.
    listed = jnp.where(count < -(-size // width), count * width, size)
    return jnp.where(count >= size, 0, jnp.minimum(listed, size)).astype(jnp.uint32)


def sparse_bits(size: int, count: jax.Array | int, width: int) -> jax.Array:
    """Bits of a message of ``count`` of ``size`` coordinates, ``width`` bits each, and their indices."""
    return jnp.asarray(count, jnp.uint32) * jnp.uint32(width) + index_bits(size, count)


def double_dense_bits(hparams: Any, num_params: int) -> float:
    """Bits of a dense message as PaME counts them (III-C): 64 n, double precision."""
    del hparams
    return 64.0 * num_params


def double_sparse_bits(count: float, num_params: int) -> float:
    """Bits of a message of s coordinates as PaME counts them, (8): 63 s + n."""
    return 63.0 * count + num_params
