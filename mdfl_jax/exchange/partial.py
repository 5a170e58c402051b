"""Partial message exchange (PaME, algorithm 2): clients average the coordinates that some neighbours send.

Each row has an exact number of coordinates, selected without sorting: a bisection finds the threshold of the selection
by counting the entries below it, for a few rows at a time.

Times to draw the coordinates of [128, 10000] on two cores of a CPU, in milliseconds (measured once, while other work
ran): sorting random words takes 52, and ranking them by two sorts 420. Counting takes 23 with all rows at once, 18 with
32 rows at a time, 12 with 16, 11 with 8, and 10 with 4. For two fifths of the rows it takes 4, with 8 rows at a time.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.devices import backend
from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.rng import per_client
from mdfl_jax.core.sharding import by_rows
from mdfl_jax.core.types import Array
from mdfl_jax.exchange.gossip import listed_sums

_Search = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]
IN_CACHE = 80_000  # words searched at a time on a CPU: they stay in the cache during some 14 passes
RECEIVERS = 32  # receivers averaged at a time on a CPU, so that clients without senders in a round cost nothing
_ROUNDING = 2.0**-21  # the relative rounding error allowed for a single-precision share times a whole number


def share_of(share: Array | float, size: Array | int) -> jax.Array:
    """Return ceil(share * size), int32, of the shape of ``size``, corrected for rounding errors.

    If the product exceeds a whole number only by a rounding error, the result is that whole number. Shares have single
    precision, so a relative error of one part in two million is allowed.

    Args:
      share: the share, in [0, 1].
      size: whole numbers, of any shape.

    >>> [int(share_of(jnp.float32(s), n)) for s, n in ((0.2, 5), (0.2, 10000), (0.7, 10), (0.21, 5), (1.0, 7))]
    [1, 2000, 7, 2, 7]
    """
    product = jnp.asarray(share, jnp.result_type(float)) * jnp.asarray(size)
    return jnp.clip(jnp.ceil(product * (1 - _ROUNDING)).astype(jnp.int32), 0, size)


def floor_of(share: Array | float, size: Array | int) -> jax.Array:
    """Return floor(share * size), int32, corrected for rounding errors as `share_of` is.

    >>> int(floor_of(jnp.float32(0.42), 150)), int(floor_of(jnp.float32(0.2), 9))
    (63, 1)
    """
    product = jnp.asarray(share, jnp.result_type(float)) * jnp.asarray(size)
    return jnp.floor(product * (1 + _ROUNDING)).astype(jnp.int32)


def in_chunks(
    make: Callable[[Any, Any], jax.Array],
    of_rows: Any,
    start: jax.Array,
    wanted: jax.Array | None = None,
    whole: Any = (),
    at_once: int = 0,
) -> jax.Array:
    """Compute the wanted rows of a matrix: on a CPU a few rows at a time, elsewhere all rows at once.

    On a mesh each device computes the rows of its clients.

    Args:
      make: (leaves [K, ...] of K rows, whole) -> [K, n]; a row must not depend on the other rows.
      of_rows: leaves [N, ...] with the input of each row.
      start: [N, n] the values of the rows that are not wanted.
      wanted: [N] bool; None computes all rows.
      whole: leaves that every row may need.
      at_once: K; 0 takes as many rows as have `IN_CACHE` words.

    Returns:
      [N, n].
    """
    wanted = jnp.ones(start.shape[0], bool) if wanted is None else wanted
    return by_rows(partial(_made, make, at_once), (of_rows, start, wanted), whole)


def _made(
    make: Callable[[Any, Any], jax.Array], at_once: int, rows: tuple[Any, jax.Array, jax.Array], whole: Any
) -> jax.Array:
    """Do the work of `in_chunks` on one device."""
    of_rows, start, wanted = rows
    num_rows, size = start.shape
    at_once = min(at_once or max(IN_CACHE // size, 1), num_rows) if backend() == "cpu" else num_rows
    if at_once == num_rows:
        return jnp.where(wanted[:, None], make(of_rows, whole), start)
    order, number = jnp.argsort(~wanted, stable=True).astype(jnp.int32), jnp.sum(wanted, dtype=jnp.int32)

    def chunk(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        made, turn = state
        # The start is clamped, so that the last chunk is full; it may overlap the chunk before it.
        rows = jax.lax.dynamic_slice(order, (turn * at_once,), (at_once,))
        found = make(jax.tree.map(lambda x: x[rows], of_rows), whole)
        return made.at[rows].set(jnp.where(wanted[rows][:, None], found, start[rows])), turn + 1

    # Chunks are counted by ones: XLA (jax 0.10.2, CPU) drops a loop by twos whose bound is a constant 1.
    chunks = (number + at_once - 1) // at_once
    return jax.lax.while_loop(lambda state: state[1] < chunks, chunk, (start, jnp.int32(0)))[0]


def smallest(words: jax.Array, count: jax.Array | int, even: bool = False) -> jax.Array:
    """Select the ``count`` smallest entries of each row; of equal entries, the first ones.

    Args:
      words: [N, n] unsigned integers.
      count: [] or [N], may be traced; it is clipped to [0, n].
      even: whether the words are spread evenly over their range, as random words are; fewer passes are then needed.

    Returns:
      [N, n] bool, with exactly ``count`` true in each row.
    """
    num_rows, size = words.shape
    count = jnp.broadcast_to(jnp.clip(jnp.asarray(count, jnp.int32), 0, size), (num_rows,))
    top = jnp.iinfo(words.dtype).max

    def settled(low: jax.Array, high: jax.Array, upto: jax.Array) -> jax.Array:
        return (upto == count) | (low >= high)

    def narrow(state: _Search) -> _Search:
        # The threshold is in [low, high]. ``below`` entries are < low, fewer than count; ``upto`` entries are <= high,
        # at least count.
        low, high, below, upto, turn = state
        done, gap = settled(low, high, upto), high - low
        part = jnp.float32(0.5)
        if even:
            aim = (count - below).astype(jnp.float32) / jnp.maximum(upto - below, 1).astype(jnp.float32)
            part = jnp.where(turn % 3 == 2, part, jnp.clip(aim, 0.0, 0.99))  # halving at times makes the search end
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


def random_of_rows(key: jax.Array, mask: jax.Array, count: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Draw ``count`` of the true entries of each row, uniformly without replacement.

    Args:
      key: one key for all rows.
      mask: [N, n] bool.
      count: [N] int32, at most the number of true entries of the row.
      senders: the clients at the columns, if the mask is an array over links. Matrices and neighbour lists give the
        same draw.

    Returns:
      [N, n] bool, true only where ``mask`` is.
    """
    drawn = jax.random.bits(key, mask.shape, jnp.uint32) if senders.ids is None else senders.bits(key, mask.shape[0])
    words = drawn >> 1  # smaller than the word of the false entries
    words = jnp.where(mask, words, jnp.uint32(2**32 - 1))
    return in_chunks(lambda rows, _: smallest(*rows), (words, count), jnp.zeros_like(mask))


def _last_of_equal(words: jax.Array, threshold: jax.Array, wanted: jax.Array, tied: jax.Array) -> jax.Array:
    """Return [N] the index of the ``wanted``-th entry equal to the threshold in tied rows, and n - 1 in the others."""
    size = words.shape[1]
    index = jnp.arange(size, dtype=jnp.int32)

    def narrow(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = state
        middle = (low + high) // 2
        equal = (words == threshold[:, None]) & (index <= middle[:, None])
        enough = jnp.sum(equal, axis=1, dtype=jnp.int32) >= wanted
        return jnp.where((low < high) & ~enough, middle + 1, low), jnp.where((low < high) & enough, middle, high)

    # Rows without a tie start with low = high, so that a search without any tie makes no pass over the words.
    start = (jnp.where(tied, 0, size - 1).astype(jnp.int32), jnp.full(words.shape[0], size - 1, jnp.int32))
    return jax.lax.while_loop(lambda s: jnp.any(s[0] < s[1]), narrow, start)[1]


def random_coordinates(
    key: jax.Array, num_clients: int, size: int, count: jax.Array | int, senders: jax.Array | None = None
) -> jax.Array:
    """Draw the coordinates T_j that each client sends, uniformly without replacement (PaME, algorithm 2, line 2).

    Each coordinate gets a random 32-bit word, and the coordinates with the smallest words are taken. Counting finds
    these words without sorting (the docstring of the module has the times of both). Of equal words the first is taken,
    which favours a coordinate by less than one part in 2^32 / n.

    Args:
      key: one key for all clients.
      num_clients: N.
      size: n.
      count: s, [] or [N], may be traced.
      senders: [N] bool, the clients that send; None means all. A client's draw does not depend on the other clients.

    Returns:
      [N, n] bool, with exactly ``count`` true in the row of each sender, and none in the other rows.
    """
    keys, counts = per_client(key, num_clients), jnp.broadcast_to(jnp.asarray(count), (num_clients,))

    def drawn(rows: tuple[jax.Array, jax.Array], _: tuple[()]) -> jax.Array:
        keys, counts = rows
        words = jax.vmap(lambda k: jax.random.bits(k, (size,), jnp.uint32))(keys)
        return smallest(words, counts, even=True)

    return in_chunks(drawn, (keys, counts), jnp.zeros((num_clients, size), bool), senders)


def random_neighbours(
    key: jax.Array, adjacency: jax.Array, rate: jax.Array | float, senders: Senders = ALL_PAIRS
) -> jax.Array:
    """Draw for each client the ceil(nu |N_i|) neighbours that send to it, uniformly (PaME, algorithm 1, line 5; V-B).

    Args:
      key: one key for all clients.
      adjacency: [N, K] bool, [i, j] where i can receive from the sender in slot j.
      rate: nu in [0, 1].
      senders: the clients in the neighbour slots.

    Returns:
      [N, K] bool, true only where ``adjacency`` is. A product nu |N_i| that exceeds a whole number only by a rounding
      error is not rounded up.

    >>> everybody = ~jnp.eye(6, dtype=bool)
    >>> random_neighbours(jax.random.key(0), everybody, 0.2).sum(axis=1).tolist()  # of five neighbours each
    [1, 1, 1, 1, 1, 1]
    """
    return random_of_rows(key, adjacency, share_of(rate, jnp.sum(adjacency, axis=1, dtype=jnp.int32)), senders)


def partial_average(
    own: jax.Array,
    sent: jax.Array,
    neighbours: jax.Array,
    senders: Senders = ALL_PAIRS,
    told: jax.Array | None = None,
) -> jax.Array:
    """Average each coordinate over the neighbours that sent it, or keep it where none did (PaME, equations 6 and 7).

    A coordinate that was sent counts even if its value is zero. The average takes two matrix products in single
    precision or better, and needs no [N, N, n] array.

    Args:
      own: [N, n] the clients' models.
      sent: [N, n] bool, the coordinates that each client sends.
      neighbours: [N, K] bool, [i, j] where i listens to the sender in slot j in this round.
      senders: the clients in the neighbour slots.
      told: [N, n] the models that the clients send in place of their own; None: their own.

    Returns:
      [N, n] the averaged models.

    >>> own = jnp.array([[2.0, 8, 3, 6], [2, 8, 1, 4], [4, 7, 2, 5], [3, 6, 0, 6]])  # PaME III-B
    >>> sent = jnp.array([[0, 0, 0, 0], [1, 0, 0, 1], [0, 0, 1, 1], [0, 0, 1, 1]], bool)
    >>> partial_average(own, sent, jnp.zeros((4, 4), bool).at[0, 1:].set(True))[0].tolist()
    [2.0, 8.0, 1.0, 5.0]
    """
    wide = jnp.promote_types(own.dtype, jnp.float32)
    values, present = jnp.where(sent, own if told is None else told, 0).astype(wide), sent.astype(wide)

    def merged(total: jax.Array, number: jax.Array, mine: jax.Array) -> jax.Array:
        return jnp.where(number > 0, total / jnp.maximum(number, 1), mine.astype(wide)).astype(own.dtype)

    if senders.ids is not None:

        def of_rows(rows: tuple[jax.Array, jax.Array, jax.Array], whole: tuple[jax.Array, jax.Array]) -> jax.Array:
            total, number = listed_sums(rows[0], rows[1], whole)
            return merged(total, number, rows[2])

        return by_rows(of_rows, (neighbours.astype(wide), senders.ids, own), (values, present))

    def average(rows: tuple[jax.Array, jax.Array], whole: tuple[jax.Array, jax.Array]) -> jax.Array:
        listens, mine = rows[0].astype(wide), rows[1]
        total, number = (jnp.matmul(listens, x, precision="highest") for x in whole)
        return merged(total, number, mine)

    listening = jnp.any(neighbours, axis=1)
    return in_chunks(average, (neighbours, own), own, listening, whole=(values, present), at_once=RECEIVERS)
