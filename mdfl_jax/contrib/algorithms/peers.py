"""Random peers, drawn again in every round: receivers for each sender, and random regular parts of a graph."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import ALL_PAIRS, Senders, place_in
from mdfl_jax.exchange.partial import random_of_rows

_Draw = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def random_receivers(
    key: jax.Array, adjacency: jax.Array, count: jax.Array | int, senders: Senders = ALL_PAIRS
) -> jax.Array:
    """Draw the receivers of each client: ``count`` of the clients that hear it, uniformly, or all if they are fewer.

    Args:
      key: one key for all clients.
      adjacency: [N, K] bool, [i, j] where i hears the sender at place j.
      count: s, may be traced.
      senders: the clients for which the places stand. The same receivers are drawn in both forms.

    Returns:
      [N, K] bool, true only where ``adjacency`` is: [i, j] where the sender in slot j sends to i.

    >>> everybody = ~jnp.eye(5, dtype=bool)
    >>> random_receivers(jax.random.key(0), everybody, 2).sum(axis=0).tolist()
    [2, 2, 2, 2, 2]
    """
    hears = senders.opposite(adjacency)  # one row for each sender
    most = jnp.sum(hears, axis=1, dtype=jnp.int32)
    count = jnp.minimum(jnp.asarray(count, jnp.int32), most)
    return senders.opposite(random_of_rows(key, hears, count, senders))


def _one_of(key: jax.Array, mask: jax.Array) -> jax.Array:
    """Return the index of a uniformly drawn true entry, or an arbitrary index if there is none."""
    return jnp.argmax(jnp.where(mask, jax.random.uniform(key, mask.shape), -1.0))


def _row(graph: jax.Array, i: jax.Array, senders: Senders) -> jax.Array:
    """Return the neighbours of a client in a graph, [N] bool."""
    if senders.ids is None:
        return graph[i]
    return jnp.zeros(graph.shape[0], bool).at[senders.ids[i]].max(graph[i])


def _tie(graph: jax.Array, i: jax.Array, j: jax.Array, value: jax.Array, senders: Senders) -> jax.Array:
    """Set whether two clients are linked. Over neighbour lists, a pair without a place stays as it is."""
    rows, columns = jnp.stack([i, j]), jnp.stack([j, i])
    if senders.ids is None:
        return graph.at[rows, columns].set(value)
    place, there = place_in(senders.ids, rows, columns)
    return graph.at[rows, place].set(jnp.where(there, value, graph[rows, place]))


def random_regular_part(
    key: jax.Array, adjacency: jax.Array, degree: jax.Array | int, senders: Senders = ALL_PAIRS
) -> jax.Array:
    """Draw a random part of a graph in which each client has ``degree`` links, or as close to that as the graph allows.

    Links are added one by one between two random clients in range that both have too few links. When no such pair is
    left, a random link (a, b) is replaced by (u, a) and (b, v), where u and v have too few links; this is tried at most
    4 N times. If the graph is complete, the result is regular, except for one client where N times ``degree`` is odd,
    and in rare cases for two clients. The distribution does not depend on the order of the clients.

    Args:
      key: one key for all clients.
      adjacency: [N, K] bool; only links in both directions are used.
      degree: s, may be traced.
      senders: the clients for which the places stand. The same links are drawn in both forms.

    Returns:
      [N, K] bool, symmetric, true only where ``adjacency`` is, with at most ``degree`` links a client.
    """
    num_clients = adjacency.shape[0]
    mutual = adjacency & senders.opposite(adjacency)
    wanted = jnp.minimum(jnp.asarray(degree, jnp.int32), jnp.sum(mutual, axis=1, dtype=jnp.int32))
    key_add, key_repair = jax.random.split(key)

    def add(state: _Draw) -> _Draw:
        graph, lack, stuck, k = state
        key_from, key_to = jax.random.split(jax.random.fold_in(key_add, k))
        u = _one_of(key_from, (lack > 0) & ~stuck)
        free = _row(mutual, u, senders) & ~_row(graph, u, senders) & (lack > 0)
        v, found = _one_of(key_to, free), jnp.any(free)
        # A client that finds no partner now finds none later, since links are only added here. If none was found, v is
        # an arbitrary client, and the link stays as it is.
        graph = _tie(graph, u, v, _row(graph, u, senders)[v] | found, senders)
        return graph, _less(lack, u, v, found), stuck.at[u].set(stuck[u] | ~found), k + 1

    def repair(state: _Draw) -> _Draw:
        graph, lack, stuck, k = state
        key_u, key_v, key_a, key_b = jax.random.split(jax.random.fold_in(key_repair, k), 4)
        u = _one_of(key_u, lack > 0)
        v = _one_of(key_v, (lack - (jnp.arange(num_clients) == u)) > 0)
        of_u = _row(mutual, u, senders) & ~_row(graph, u, senders)
        a = _one_of(key_a, of_u & (jnp.arange(num_clients) != v))
        of_a = _row(graph, a, senders)
        b = _one_of(key_b, of_a)
        new_b = (_row(mutual, v, senders) & ~_row(graph, v, senders))[b]
        ok = of_u[a] & new_b & of_a[b] & (a != v) & (b != u)
        for i, j, value in ((a, b, False), (u, a, True), (v, b, True)):
            graph = _tie(graph, i, j, jnp.where(ok, value, _row(graph, i, senders)[j]), senders)
        return graph, _less(lack, u, v, ok), stuck, k + 1

    start = jnp.zeros_like(mutual), wanted, jnp.zeros(num_clients, bool), jnp.int32(0)
    graph, lack, stuck, _ = jax.lax.while_loop(lambda s: jnp.any((s[1] > 0) & ~s[2]), add, start)
    unfinished = lambda s: (s[3] < 4 * num_clients) & (jnp.sum(s[1]) > 1)  # noqa: E731
    return jax.lax.while_loop(unfinished, repair, (graph, lack, stuck, jnp.int32(0)))[0]


def _less(lack: jax.Array, u: jax.Array, v: jax.Array, found: jax.Array) -> jax.Array:
    """Count a new link of two clients; they may be the same one in a repair, which then lacks two links."""
    more = found.astype(lack.dtype)
    return lack.at[u].add(-more).at[v].add(-more)
