"""Random pairs of clients that hear each other, drawn again in every round."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import ALL_PAIRS, Senders


def random_pairs(key: jax.Array, adjacency: jax.Array, starts: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Draw disjoint pairs of clients that hear each other, in each of which one or both start the exchange.

    Each such pair of clients has a random moment, its own. At this moment the two exchange, unless one of them has
    exchanged before with another. So a client that starts alone finds a uniform partner, nobody exchanges twice, and no
    two clients that could exchange are left over. Pairs whose moment is the first one of both clients are found
    together; after a few such rounds none is left.

    Args:
      key: one key for all clients.
      adjacency: [N, K] bool; only links in both directions are used.
      starts: [N] bool, the clients that start exchanges; the others only answer.
      senders: the clients for which the places stand. The same pairs are drawn in both forms.

    Returns:
      [N, K] bool, symmetric, with at most one link a client.

    >>> pairs = random_pairs(jax.random.key(0), ~jnp.eye(4, dtype=bool), jnp.array([True, False, False, False]))
    >>> pairs.sum(axis=1).tolist()[0], int(pairs.sum())
    (1, 2)
    """
    num_clients = adjacency.shape[0]
    me = jnp.arange(num_clients, dtype=jnp.int32)
    other = senders.of(me)
    drawn = senders.uniform(key, num_clients)
    earliness = jnp.where(me[:, None] < other, drawn, senders.opposite(drawn))  # the same at both ends
    can = adjacency & senders.opposite(adjacency) & (starts[:, None] | senders.of(starts))

    def join(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        can, partner = state
        first = senders.at(jnp.argmax(jnp.where(can, earliness, -1.0), axis=1))
        first = jnp.where(jnp.any(can, axis=1), first, me)
        partner = jnp.where(first[first] == me, jnp.where(first == me, partner, first), partner)
        free = partner == me
        return can & free[:, None] & senders.of(free), partner

    _, partner = jax.lax.while_loop(lambda state: jnp.any(state[0]), join, (can, me))
    return (other == partner[:, None]) & (partner != me)[:, None]
