"""Arrays over the possible links of a round: all pairs of clients, or neighbour lists.

An array over links has one row for each receiver and one neighbour slot for each possible sender, [N, K]. There are two
forms:

- dense: K = N, and slot j belongs to sender j. This is the usual matrix.
- lists: slot 0 belongs to the receiver itself, the next slots to the clients from which it may receive in this round,
  in increasing order, and the last slots are unused. K is a bound for which the program is compiled.

Code that works elementwise, sums over the slots of a receiver (``axis=1``) and takes everything else from the functions
of `Senders` has the same meaning in both forms. Lists have both directions of a link: if i has a slot for j, then j has
a slot for i. A link in only one direction has the value False in the slot of the other direction.

In this file and in arguments, ``place`` is the index of a slot in a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.rng import pair_uniform, pair_words


@jax.tree_util.register_static
@dataclass(frozen=True)
class Reach:
    """The largest distance, on the circle of client indices, between a receiver and a sender; static."""

    rows: int


class Senders(NamedTuple):
    """The clients in the slots of arrays over links.

    Attributes:
      ids: [N, K] int32, the client in each slot; an unused slot holds the receiver itself. None: the dense form.
      back: [N, K] int32, the place of the opposite link in the row of the sender; the slot's own place if there is no
        opposite link. None: the dense form.
      most: [] int32, the number of slots that the fullest row needs. If it is larger than K, the lists are cut off, and
        the results of the program are invalid. None: the dense form.
      reach: a bound, for all rounds, of the distance by index between senders and receivers; None: not known.
    """

    ids: jax.Array | None = None
    back: jax.Array | None = None
    most: jax.Array | None = None
    reach: Reach | None = None

    def of(self, values: jax.Array) -> jax.Array:
        """Return the senders' values: [N, ...] -> [N, K, ...], or [1, N, ...] in the dense form."""
        return values[None] if self.ids is None else values[self.ids]

    def at(self, places: jax.Array) -> jax.Array:
        """Return the client in one slot of each row: [N] -> [N] int32."""
        found = places if self.ids is None else jnp.take_along_axis(self.ids, places[:, None], axis=1)[:, 0]
        return found.astype(jnp.int32)

    def on_own(self, values: jax.Array) -> jax.Array:
        """Return an array over links with the values [N] in the clients' own slots, and zero elsewhere."""
        if self.ids is None:
            return jnp.diag(values)
        rest = jnp.zeros((values.shape[0], self.ids.shape[1] - 1), values.dtype)
        return jnp.concatenate([values[:, None], rest], axis=1)

    def own(self, num_clients: int) -> jax.Array:
        """Return the array over links that is True in the clients' own slots."""
        return jnp.eye(num_clients, dtype=bool) if self.ids is None else self.on_own(jnp.ones(num_clients, bool))

    def opposite(self, values: jax.Array) -> jax.Array:
        """Return the values of the links in the opposite direction: the transposed matrix."""
        return values.T if self.ids is None or self.back is None else values[self.ids, self.back]

    def sums(self, values: jax.Array) -> jax.Array:
        """Return the sum over the receivers for each sender: the column sums, [N]."""
        if self.ids is None:
            return jnp.sum(values, axis=0, dtype=jnp.int32 if values.dtype == bool else None)
        opposite = self.opposite(values)
        return jnp.sum(opposite, axis=1, dtype=jnp.int32 if values.dtype == bool else None)

    def sum_of(self, weights: jax.Array, values: jax.Array) -> jax.Array:
        """Return [N], for each receiver the sum of the senders' values [N] times the weights of the links."""
        if self.ids is None:
            return jnp.matmul(weights, values, precision="highest")
        return jnp.sum(weights * values[self.ids], axis=1)

    def bits(self, key: jax.Array, num_clients: int) -> jax.Array:
        """Draw a random word for each link, uint32. A link gets the same word in both forms.

        In the dense form these are the words of `jax.random.bits` of shape [N, N].
        """
        if self.ids is None:
            return jax.random.bits(key, (num_clients, num_clients), jnp.uint32)
        high, low = pair_words(key, jnp.arange(num_clients)[:, None], self.ids, num_clients)
        return high ^ low

    def uniform(self, key: jax.Array, num_clients: int) -> jax.Array:
        """Draw a random number in [0, 1) for each link, as `jax.random.uniform` would, in both forms."""
        if self.ids is None:
            return jax.random.uniform(key, (num_clients, num_clients))
        return pair_uniform(key, jnp.arange(num_clients)[:, None], self.ids, num_clients)

    def uniform_of_pairs(self, key: jax.Array, num_clients: int) -> jax.Array:
        """Draw a random number in [0, 1) for each pair of clients, as `uniform` does; both directions get the same."""
        if self.ids is None:
            lower = jnp.tril(self.uniform(key, num_clients), -1)
            return lower + lower.T
        me = jnp.arange(num_clients, dtype=jnp.int32)[:, None]
        return pair_uniform(key, jnp.maximum(me, self.ids), jnp.minimum(me, self.ids), num_clients)


ALL_PAIRS = Senders()
"""The dense form."""


class Lists(NamedTuple):
    """What is known of the neighbour lists of a network.

    Attributes:
      places: K, the number of slots in a row of the links.
      bound: the number of slots in the lists that ``needed`` counts.
      needed: (state) -> [] int32, the largest number of slots that a client has needed in any round so far. If it is
        above ``bound``, links were left out. None: the number of neighbours is known.
    """

    places: int
    bound: int = 0
    needed: Callable[[Any], jax.Array] | None = None


def no_senders(num_clients: int, places: int) -> Senders:
    """Return neighbour lists without neighbours: all K slots of a client hold the client itself."""
    me, place = (jax.lax.broadcasted_iota(jnp.int32, (num_clients, places), axis) for axis in (0, 1))
    return Senders(me, place, jnp.int32(1))


def place_in(ids: jax.Array, row: jax.Array, wanted: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Find the place of a client in a row of neighbour lists, by bisection.

    Args:
      ids: [N, K] int32 as in `Senders`.
      row, wanted: whole numbers of one shape, the row to look into and the client to look for.

    Returns:
      (the place, whether the client is in the row), of the same shape. The clients' own slots are not searched.
    """
    num_clients, size = ids.shape
    # Unused slots come after all senders. With an index above all clients in them, a row without slot 0 is increasing.
    increasing = jnp.where(in_use(Senders(ids), num_clients), ids, num_clients)

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds  # the first place whose client is not before the wanted one
        middle = (low + high) // 2
        before = increasing[row, jnp.minimum(middle, size - 1)] < wanted
        return jnp.where(before & (low < high), middle + 1, low), jnp.where(~before & (low < high), middle, high)

    start = jnp.ones_like(wanted), jnp.full_like(wanted, size)
    low = jnp.minimum(jax.lax.fori_loop(0, size.bit_length() + 1, halve, start)[0], size - 1)
    return low, (increasing[row, low] == wanted) & (low > 0)


def places_of(ids: jax.Array) -> jax.Array:
    """Find the place of the opposite link for each slot of neighbour lists.

    Args:
      ids: [N, K] int32 as in `Senders`: the receiver itself, its senders in increasing order, and unused slots, which
        hold the receiver's own index.

    Returns:
      [N, K] int32, as `Senders.back`.
    """
    me, place = (jax.lax.broadcasted_iota(jnp.int32, ids.shape, axis) for axis in (0, 1))
    low, there = place_in(ids, ids, me)
    return jnp.where(there & (ids != me), low, place)


def carried(ids: jax.Array, values: jax.Array, senders: Senders) -> jax.Array:
    """Move values of links from the slots of one round to those of the next.

    Args:
      ids: [N, K] int32, the clients in the slots of ``values``.
      values: [N, K], the values of the links of the earlier round.
      senders: the neighbour lists of the later round.

    Returns:
      [N, K] the values in the slots of the later round; zero for links that are not in the earlier lists.
    """
    assert senders.ids is not None
    me = jax.lax.broadcasted_iota(jnp.int32, ids.shape, 0)
    place, there = place_in(ids, me, senders.ids)
    return jnp.where(there & (senders.ids != me), values[me, place], 0)


def as_senders(neighbours: jax.Array, present: jax.Array, degree: jax.Array) -> Senders:
    """Make neighbour lists from the neighbours of each client.

    Args:
      neighbours: [N, D] int32 in any order.
      present: [N, D] bool, which of them count.
      degree: [N] int32, the number of neighbours, which may be larger than D.

    Returns:
      Lists of K = D + 1 slots.
    """
    num_clients = neighbours.shape[0]
    me = jnp.arange(num_clients, dtype=jnp.int32)[:, None]
    ordered = jnp.sort(jnp.where(present, neighbours, num_clients), axis=1)
    ids = jnp.concatenate([me, jnp.where(ordered < num_clients, ordered, me)], axis=1).astype(jnp.int32)
    return Senders(ids, places_of(ids), (jnp.max(degree) + 1).astype(jnp.int32))


def in_use(senders: Senders, num_clients: int) -> jax.Array:
    """Return the array over links that is True in slots that hold another client."""
    if senders.ids is None:
        return ~jnp.eye(num_clients, dtype=bool)
    return senders.ids != jnp.arange(num_clients, dtype=jnp.int32)[:, None]


def as_matrix(values: jax.Array, senders: Senders) -> jax.Array:
    """Return an array over links as a matrix [N, N], for few clients; unused slots must be zero or False."""
    if senders.ids is None:
        return values
    num_clients = values.shape[0]
    me = jnp.arange(num_clients)[:, None]
    if values.dtype == bool:
        return jnp.zeros((num_clients, num_clients), bool).at[me, senders.ids].max(values)
    return jnp.zeros((num_clients, num_clients), values.dtype).at[me, senders.ids].add(values)


def from_pairs(receiver: jax.Array, sender: jax.Array, real: jax.Array, num_clients: int, size: int) -> Senders:
    """Make neighbour lists from pairs of clients. Each pair becomes a link in both directions.

    Args:
      receiver, sender: [E] int32, the pairs in any order. Pairs may be given twice, in one or in both directions.
      real: [E] bool, which pairs count. A pair of a client with itself never counts.
      num_clients: N.
      size: K, the number of slots of a row.

    Returns:
      The lists; ``most`` is right even if K is too small.
    """
    real = real & (receiver != sender)
    row = jnp.where(jnp.concatenate([real, real]), jnp.concatenate([receiver, sender]), num_clients)
    column = jnp.concatenate([sender, receiver])
    order = jnp.lexsort((column, row))
    row, column = row[order].astype(jnp.int32), column[order].astype(jnp.int32)
    again = (row == jnp.roll(row, 1)) & (column == jnp.roll(column, 1)) & (jnp.arange(row.shape[0]) > 0)
    counts = (row < num_clients) & ~again
    before = jnp.cumsum(counts) - counts  # distinct pairs before this one
    first = jnp.searchsorted(row, jnp.arange(num_clients + 1, dtype=jnp.int32))
    place = before - before[jnp.minimum(first[row], row.shape[0] - 1)] + 1
    me = jnp.arange(num_clients, dtype=jnp.int32)[:, None]
    ids = jnp.broadcast_to(me, (num_clients, size))
    ids = ids.at[jnp.where(counts, row, num_clients), place].set(column, mode="drop")
    most = jnp.max(jnp.where(counts, place, 0)) + 1
    return Senders(ids, places_of(ids), most.astype(jnp.int32))


def heard_from(
    senders: Senders, receiver: jax.Array, sender: jax.Array, real: jax.Array, values: Any = True
) -> jax.Array:
    """Return the array over links that has the values of directed pairs, and False or zero elsewhere.

    Pairs that are not in the lists are left out.
    """
    assert senders.ids is not None
    num_clients, size = senders.ids.shape
    place, there = place_in(senders.ids, receiver, sender)
    none = jnp.zeros((num_clients, size), jnp.result_type(values))
    return none.at[jnp.where(real & there, receiver, num_clients), place].set(values, mode="drop")
