"""Partial message exchange (PaME, algorithm 2): clients average the coordinates that some neighbours send."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.rng import per_client
from mdfl_jax.core.sharding import by_rows
from mdfl_jax.exchange.coordinates import in_chunks, random_of_rows, share_of, smallest
from mdfl_jax.exchange.gossip import listed_sums

RECEIVERS = 32  # receivers averaged at a time on a CPU, so that clients that listen to nobody in a round cost nothing


def random_coordinates(
    key: jax.Array, num_clients: int, size: int, count: jax.Array | int, senders: jax.Array | None = None
) -> jax.Array:
    """Draw the coordinates T_j that each client sends, uniformly without replacement (PaME, algorithm 2, line 2).

    Each coordinate gets a random 32-bit word, and the coordinates with the smallest words are taken. They are found by
    counting, without sorting (`mdfl_jax.exchange.coordinates` has the times of both). Of equal words the first is
    taken, which favours a coordinate by less than one part in 2^32 / n.

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
    """Draw ceil(nu |N_i|) neighbours for each client to listen to, uniformly (PaME, algorithm 1, line 5; V-B).

    Args:
      key: one key for all clients.
      adjacency: [N, K] bool, [i, j] where i hears the sender at place j.
      rate: nu in [0, 1].
      senders: the clients for which the places stand.

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
      neighbours: [N, K] bool, [i, j] where i listens to the sender at place j in this round.
      senders: the clients for which the places stand.
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

        return by_rows(of_rows, (neighbours.astype(wide), senders.ids, own), (values, present), own.shape[0])

    def average(rows: tuple[jax.Array, jax.Array], whole: tuple[jax.Array, jax.Array]) -> jax.Array:
        listens, mine = rows[0].astype(wide), rows[1]
        total, number = (jnp.matmul(listens, x, precision="highest") for x in whole)
        return merged(total, number, mine)

    listening = jnp.any(neighbours, axis=1)
    return in_chunks(average, (neighbours, own), own, listening, whole=(values, present), at_once=RECEIVERS)
