"""Random pairs of clients that can receive from each other, drawn again in every round."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import ALL_PAIRS, Senders


def random_pairs(key: jax.Array, adjacency: jax.Array, starts: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Draw disjoint pairs of clients that can receive from each other; at least one client of a pair starts.

    Every possible pair gets a random moment. At its moment the two clients exchange, unless one of them has exchanged
    with another client before. So a client that starts alone finds a uniform partner, nobody exchanges twice, and no
    two clients that could exchange are left over. All pairs whose moment is the earliest of both of their clients are
    found together; a few such iterations find all pairs.

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
