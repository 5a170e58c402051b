"""Exactly so many entries of each row, without sorting: a threshold is searched by counting, a few rows at a time.

The drawn coordinates of [128, 10000] on the two cores of a CPU, in milliseconds (one-off, other work beside): sorting
random words 52, ranking them by two sorts 420; counting, all rows at once 23, 32 rows at a time 18, 16: 12, 8: 11, 4:
10; and 4 for two fifths of the rows, 8 at a time.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.sharding import by_rows
from mdfl_jax.target import backend
from mdfl_jax.types import Array

_Search = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]
IN_CACHE = 80_000  # words searched at a time on a CPU: some 14 passes over what stays in the cache
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


def in_chunks(
    make: Callable[[Any, Any], jax.Array],
    of_rows: Any,
    start: jax.Array,
    wanted: jax.Array | None = None,
    whole: Any = (),
    at_once: int = 0,
) -> jax.Array:
    """Rows of a matrix made a few at a time on a CPU, and only those that are wanted; elsewhere all at once.

    On a mesh each device makes those of its clients.

    Args:
      make: (leaves [K, ...] of K rows, whole) -> [K, n]; a row must not depend on those that are made with it.
      of_rows: leaves [N, ...], what each row is made of.
      start: [N, n] what the other rows are.
      wanted: [N] bool; left out: all.
      whole: leaves that every row may need.
      at_once: K; 0: as many as make `IN_CACHE` words.
    """
    wanted = jnp.ones(start.shape[0], bool) if wanted is None else wanted
    return by_rows(partial(_made, make, at_once), (of_rows, start, wanted), whole, start.shape[0])


def _made(
    make: Callable[[Any, Any], jax.Array], at_once: int, rows: tuple[Any, jax.Array, jax.Array], whole: Any
) -> jax.Array:
    """`in_chunks` on one device."""
    of_rows, start, wanted = rows
    num_rows, size = start.shape
    at_once = min(at_once or max(IN_CACHE // size, 1), num_rows) if backend() == "cpu" else num_rows
    if at_once == num_rows:
        return jnp.where(wanted[:, None], make(of_rows, whole), start)
    order, number = jnp.argsort(~wanted, stable=True).astype(jnp.int32), jnp.sum(wanted, dtype=jnp.int32)

    def chunk(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        made, turn = state
        rows = jax.lax.dynamic_slice(order, (turn * at_once,), (at_once,))  # the last begins earlier, to be a whole one
        found = make(jax.tree.map(lambda x: x[rows], of_rows), whole)
        return made.at[rows].set(jnp.where(wanted[rows][:, None], found, start[rows])), turn + 1

    # Chunks are counted by ones: XLA (jax 0.10.2, CPU) drops a loop by twos whose bound is a constant 1.
    chunks = (number + at_once - 1) // at_once
    return jax.lax.while_loop(lambda state: state[1] < chunks, chunk, (start, jnp.int32(0)))[0]


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


def random_of_rows(key: jax.Array, mask: jax.Array, count: jax.Array) -> jax.Array:
    """So many true entries of each row, drawn uniformly without replacement.

    Args:
      key: one for all rows.
      mask: [N, n] bool.
      count: [N] int32, at most the true entries of the row.

    Returns:
      [N, n] bool, a part of ``mask``.
    """
    words = jax.random.bits(key, mask.shape, jnp.uint32) >> 1  # below what the others have
    words = jnp.where(mask, words, jnp.uint32(2**32 - 1))
    return in_chunks(lambda rows, _: smallest(*rows), (words, count), jnp.zeros_like(mask))


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
