"""Exact counts of the messages and bits sent over the directed links.

A round of a large model can send more than 2^32 bits, and a float would round the count. So a count is a pair of words,
`Bits`. A message is counted once for each directed link, even if one radio transmission could reach several receivers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.rng import product_words

_WORD = 32  # the width of a word, in bits


class Bits(NamedTuple):
    """Counts of bits below 2^64, each as high * 2^32 + low; `add_bits` adds two of them.

    Attributes:
      high: [N] uint32, or of another shape.
      low: uint32 of this shape.
    """

    high: Any
    low: Any

    def rounded(self) -> jax.Array:
        """Return the counts in single precision; below 2^40 the nearest number, since halves of words are exact."""
        high, middle, low = self.high, self.low >> 16, self.low & 0xFFFF
        return high.astype(jnp.float32) * 2.0**_WORD + middle.astype(jnp.float32) * 2.0**16 + low.astype(jnp.float32)


def as_bits(count: Bits | jax.Array | int) -> Bits:
    """Return a count as `Bits`; it may be `Bits`, an array of whole numbers below 2^32, or a number below 2^64."""
    if isinstance(count, Bits):
        return count
    if isinstance(count, int):
        return Bits(np.uint32(count >> _WORD), np.uint32(count & 0xFFFFFFFF))
    low = jnp.asarray(count).astype(jnp.uint32)
    return Bits(jnp.zeros_like(low), low)


def no_bits(num_clients: int) -> Bits:
    """Return counts of zero, [N]."""
    return Bits(jnp.zeros(num_clients, jnp.uint32), jnp.zeros(num_clients, jnp.uint32))


def count_bits(messages: jax.Array, size: Bits | jax.Array | int) -> Bits:
    """Count the bits of ``messages`` messages of ``size`` bits each, exactly.

    Args:
      messages: [N] whole numbers.
      size: the bits of a message, as `as_bits` takes them; one number for all clients, or [N].

    Returns:
      The counts, [N].

    >>> float(total_bits(words(count_bits(jnp.array([7_000]), 40_000_000_000)))[0])
    280000000000000.0
    """
    m, b = jnp.asarray(messages).astype(jnp.uint32), as_bits(size)
    high, low = product_words(m, b.low)
    return Bits(m * b.high + high, low)


def add_bits(a: Bits, b: Bits) -> Bits:
    """Return the sum of two counts, with the carry."""
    low = jnp.add(a.low, b.low)
    return Bits(jnp.add(a.high, b.high) + (low < b.low).astype(jnp.uint32), low)


def sum_bits(bits: Bits, sums: Callable[[jax.Array], jax.Array]) -> Bits:
    """Return sums of counts, such as those of the columns of a matrix.

    Args:
      bits: the counts.
      sums: returns the sums of an array of uint32, each of at most 2^16 of its numbers.
    """
    halves = bits.low & 0xFFFF, bits.low >> 16
    low, middle, high = (sums(word).astype(jnp.uint32) for word in (*halves, bits.high))
    return add_bits(Bits(high + (middle >> 16), middle << 16), as_bits(low))


def words(bits: Bits) -> jax.Array:
    """Return counts as one array, [N, 2] uint32, high word first."""
    return jnp.stack(bits, axis=-1)


def total_bits(words: Any) -> np.ndarray:
    """Convert counts [..., 2], as `words` returns them, to float64 [...] on the host, exact below 2^53."""
    return np.asarray(words)[..., 0].astype(np.float64) * 2**_WORD + np.asarray(words)[..., 1]


def messages_sent(adjacency: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Return [N] int32, the messages of each client if it sends to all in its range: the column sums.

    Args:
      adjacency: [N, K] bool, [i, j] where i can receive from the sender in slot j.
      senders: the clients in the slots, `Links.senders`.

    Raises:
      UserError: if the adjacency is not a matrix and the senders are not given.
    """
    if senders.ids is None and adjacency.shape[0] != adjacency.shape[1]:
        raise UserError("messages_sent(...) over neighbour lists needs links.senders, or engine.links=dense")
    return senders.sums(adjacency)


def num_coordinates(client_params: Any) -> int:
    """Return the number of coordinates of one client's model, for stacked trees [N, ...]."""
    return sum(leaf[0].size for leaf in jax.tree.leaves(client_params))


def float_bits(client_params: Any) -> int:
    """Return the bits of a coordinate, the width of the models' floats: 32 or 64."""
    return int(jnp.finfo(jax.tree.leaves(client_params)[0].dtype).bits)


def dense_bits(client_params: Any) -> int:
    """Return the bits of one client's whole model, for stacked trees [N, ...]."""
    return num_coordinates(client_params) * float_bits(client_params)


def index_bits(size: int, count: jax.Array | int) -> jax.Array:
    """Return the bits of the indices of ``count`` of ``size`` coordinates: uint32, of the shape of ``count``.

    The indices are sent as a bitmap or as a list, whichever is shorter. A message of all coordinates has no indices.

    >>> int(index_bits(1000, 10)), int(index_bits(1000, 500)), int(index_bits(1000, 1000))
    (100, 1000, 0)
    """
    width, whole = max((size - 1).bit_length(), 1), np.uint32(size)
    count = jnp.asarray(count, jnp.uint32)
    # With size / width entries or more the bitmap is at least as short, and the product count * width could overflow.
    listed = jnp.where(count < -(-size // width), count * width, whole)
    return jnp.where(count >= whole, 0, jnp.minimum(listed, whole)).astype(jnp.uint32)


def sparse_bits(size: int, count: jax.Array | int, width: int) -> Bits:
    """Return the bits of a message of ``count`` of ``size`` coordinates, ``width`` bits each, with their indices."""
    return add_bits(count_bits(jnp.asarray(count, jnp.uint32), width), as_bits(index_bits(size, count)))


def count_within(size: int, budget: jax.Array, width: int) -> jax.Array:
    """Return how many of ``size`` coordinates a message of at most ``budget`` bits holds: int32, shape of ``budget``.

    The result is the largest count whose `sparse_bits` are at most the budget; 0 if not even one coordinate fits.
    Budgets are float32. So beyond 2^24 bits, a message may exceed its budget by a relative rounding error of 2^-24.

    >>> count_within(1000, jnp.array([41.0, 42.0, 425.0, 31_999.0, 32_000.0]), 32).tolist()
    [0, 1, 10, 968, 1000]
    """
    index = max((size - 1).bit_length(), 1)
    listed, by_map = budget // (width + index), (budget - size) // width
    count = jnp.where(budget >= float(size * width), size, jnp.clip(jnp.maximum(listed, by_map), 0, size - 1))
    return count.astype(jnp.int32)


def double_dense_bits(hparams: Any, num_params: int) -> float:
    """Return the bits of a dense message of n = ``num_params`` coordinates as PaME counts them (III-C): 64 n."""
    del hparams
    return 64.0 * num_params


def double_sparse_bits(count: float, num_params: int) -> float:
    """Return the bits of a message of s = ``count`` of n coordinates as PaME counts them (equation 8): 63 s + n."""
    return 63.0 * count + num_params
