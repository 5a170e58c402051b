"""Exactly so many entries of each row, without sorting: a threshold is searched by counting.

Sorting the rows of [128, 10000] random words takes 45 ms on the two cores of a CPU, twice ranking them 410; some 14
passes that count take 5, beside 7 for drawing the words (one-off measurements).
"""

import jax
import jax.numpy as jnp

from mdfl_jax.types import Array

_Search = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]
ROUNDING = 2.0**-21  # of the product of a single-precision share and a whole number, relative


def share_of(share: Array | float, size: Array | int) -> jax.Array:
    """ceil(share * size), int32, where a product that only rounding lifts above a whole number counts as that number.

    A share is known in single precision, so products are taken to one part in two million.

    Args:
      share: in [0, 1].
      size: whole numbers, of any shape.

    >>> [int(share_of(jnp.float32(s), n)) for s, n in ((0.2, 5), (0.2, 10000), (0.7, 10), (0.21, 5), (1.0, 7))]
    [1, 2000, 7, 2, 7]
    """
    product = jnp.asarray(share, jnp.result_type(float)) * jnp.asarray(size)
    return jnp.clip(jnp.ceil(product * (1 - ROUNDING)).astype(jnp.int32), 0, size)


def smallest(words: jax.Array, count: jax.Array | int, even: bool = False) -> jax.Array:
    """The ``count`` smallest entries of each row; of equal ones, the first.

    Args:
      words: [N, n] unsigned integers.
      count: [] or [N], may be traced; beyond [0, n] it is taken as 0 or n.
      even: the words are spread evenly over their range, as random ones are: fewer passes.

    Returns:
      [N, n] bool, exactly ``count`` true in each row.
    """
    num_rows, size = words.shape
    count = jnp.broadcast_to(jnp.clip(jnp.asarray(count, jnp.int32), 0, size), (num_rows,))
    top = jnp.iinfo(words.dtype).max

    def settled(low: jax.Array, high: jax.Array, upto: jax.Array) -> jax.Array:
        return (upto == count) | (low >= high)

    def narrow(state: _Search) -> _Search:
        # The threshold is in [low, high]: ``below`` < count entries are less than low, ``upto`` >= count at most high.
        low, high, below, upto, turn = state
        done, gap = settled(low, high, upto), high - low
        part = jnp.float32(0.5)
        if even:
            aim = (count - below).astype(jnp.float32) / jnp.maximum(upto - below, 1).astype(jnp.float32)
            part = jnp.where(turn % 3 == 2, part, jnp.clip(aim, 0.0, 0.99))  # halved now and then: it always ends
            offset = (gap.astype(jnp.float32) * part).astype(words.dtype)
        else:
            offset = gap // 2
        middle = low + jnp.minimum(offset, jnp.maximum(gap, 1) - 1)
        found = jnp.sum(words <= middle[:, None], axis=1, dtype=jnp.int32)
        enough = found >= count
        rise, fall = ~done & ~enough, ~done & enough
        return (
            jnp.where(rise, middle + 1, low),
            jnp.where(fall, middle, high),
            jnp.where(rise, found, below),
            jnp.where(fall, found, upto),
            turn + 1,
        )

    start = (
        jnp.zeros(num_rows, words.dtype),
        jnp.full(num_rows, top, words.dtype),
        jnp.zeros(num_rows, jnp.int32),
        jnp.full(num_rows, size, jnp.int32),
        jnp.int32(0),
    )
    _, threshold, below, upto, _ = jax.lax.while_loop(lambda s: ~jnp.all(settled(s[0], s[1], s[3])), narrow, start)
    last = _last_of_equal(words, threshold, count - below, upto > count)
    equal = (words == threshold[:, None]) & (jnp.arange(size, dtype=jnp.int32) <= last[:, None])
    return ((words < threshold[:, None]) | equal) & (count > 0)[:, None]


def _last_of_equal(words: jax.Array, threshold: jax.Array, wanted: jax.Array, tied: jax.Array) -> jax.Array:
    """[N] index of the ``wanted``-th entry equal to the threshold in the rows that are tied, n - 1 in the others."""
    size = words.shape[1]
    index = jnp.arange(size, dtype=jnp.int32)

    def narrow(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = state
        middle = (low + high) // 2
        equal = (words == threshold[:, None]) & (index <= middle[:, None])
        enough = jnp.sum(equal, axis=1, dtype=jnp.int32) >= wanted
        return jnp.where((low < high) & ~enough, middle + 1, low), jnp.where((low < high) & enough, middle, high)

    # Without a tie nothing is searched: no pass over the words is spent on it.
    start = (jnp.where(tied, 0, size - 1).astype(jnp.int32), jnp.full(words.shape[0], size - 1, jnp.int32))
    return jax.lax.while_loop(lambda s: jnp.any(s[0] < s[1]), narrow, start)[1]
