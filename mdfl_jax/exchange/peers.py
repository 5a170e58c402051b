"""Random peers, drawn again in every round: receivers for each sender, and random regular parts of a graph."""

import jax
import jax.numpy as jnp

from mdfl_jax.exchange.coordinates import random_of_rows

_Draw = tuple[jax.Array, jax.Array, jax.Array]


def random_receivers(key: jax.Array, adjacency: jax.Array, count: jax.Array | int) -> jax.Array:
    """Draw the receivers of each client: ``count`` of the clients that hear it, uniformly, or all if they are fewer.

    Args:
      key: one key for all clients.
      adjacency: [N, N] bool, [i, j] where i hears j.
      count: s, may be traced.

    Returns:
      [N, N] bool, true only where ``adjacency`` is: [i, j] where j sends to i.

    >>> everybody = ~jnp.eye(5, dtype=bool)
    >>> random_receivers(jax.random.key(0), everybody, 2).sum(axis=0).tolist()
    [2, 2, 2, 2, 2]
    """
    hears = adjacency.T  # [j, i]: one row for each sender
    most = jnp.sum(hears, axis=1, dtype=jnp.int32)
    return random_of_rows(key, hears, jnp.minimum(jnp.asarray(count, jnp.int32), most)).T


def _one_of(key: jax.Array, mask: jax.Array) -> jax.Array:
    """Return the index of a uniformly drawn true entry, or an arbitrary index if there is none."""
    return jnp.argmax(jnp.where(mask, jax.random.uniform(key, mask.shape), -1.0))


def _tie(graph: jax.Array, i: jax.Array, j: jax.Array, value: jax.Array) -> jax.Array:
    return graph.at[jnp.stack([i, j]), jnp.stack([j, i])].set(value)


def random_regular_part(key: jax.Array, adjacency: jax.Array, degree: jax.Array | int) -> jax.Array:
    """Draw a random part of a graph in which each client has ``degree`` links, or as close to that as the graph allows.

    Links are added one by one between two random clients in range that both have too few links. When no such pair is
    left, a random link (a, b) is replaced by (u, a) and (b, v), where u and v have too few links; this is tried at most
    4 N times. If the graph is complete, the result is regular, except for one client where N times ``degree`` is odd,
    and in rare cases for two clients. The distribution does not depend on the order of the clients.

    Args:
      key: one key for all clients.
      adjacency: [N, N] bool; only links in both directions are used.
      degree: s, may be traced.

    Returns:
      [N, N] bool, symmetric, true only where ``adjacency`` is, with at most ``degree`` links a client.
    """
    num_clients = adjacency.shape[0]
    mutual = adjacency & adjacency.T
    wanted = jnp.minimum(jnp.asarray(degree, jnp.int32), jnp.sum(mutual, axis=1, dtype=jnp.int32))
    key_add, key_repair = jax.random.split(key)

    def lack(graph: jax.Array) -> jax.Array:
        return wanted - jnp.sum(graph, axis=1, dtype=jnp.int32)

    def add(state: _Draw) -> _Draw:
        graph, stuck, k = state
        key_from, key_to = jax.random.split(jax.random.fold_in(key_add, k))
        lacks = lack(graph) > 0
        u = _one_of(key_from, lacks & ~stuck)
        free = mutual[u] & ~graph[u] & lacks
        v, found = _one_of(key_to, free), jnp.any(free)
        # A client that finds no partner now finds none later, since links are only added here.
        return _tie(graph, u, v, graph[u, v] | found), stuck.at[u].set(stuck[u] | ~found), k + 1

    def repair(state: _Draw) -> _Draw:
        graph, _, k = state
        key_u, key_v, key_a, key_b = jax.random.split(jax.random.fold_in(key_repair, k), 4)
        lacks = lack(graph)
        u = _one_of(key_u, lacks > 0)
        v = _one_of(key_v, (lacks - (jnp.arange(num_clients) == u)) > 0)
        a = _one_of(key_a, mutual[u] & ~graph[u] & (jnp.arange(num_clients) != v))
        b = _one_of(key_b, graph[a])
        new_a, new_b = mutual[u, a] & ~graph[u, a], mutual[v, b] & ~graph[v, b]
        ok = new_a & new_b & graph[a, b] & (a != v) & (b != u)
        changed = _tie(_tie(_tie(graph, a, b, jnp.bool_(False)), u, a, jnp.bool_(True)), v, b, jnp.bool_(True))
        return jnp.where(ok, changed, graph), state[1], k + 1

    start = jnp.zeros_like(mutual), jnp.zeros(num_clients, bool), jnp.int32(0)
    graph, _, _ = jax.lax.while_loop(lambda s: jnp.any((lack(s[0]) > 0) & ~s[1]), add, start)
    unfinished = lambda s: (s[2] < 4 * num_clients) & (jnp.sum(lack(s[0])) > 1)  # noqa: E731
    return jax.lax.while_loop(unfinished, repair, (graph, start[1], jnp.int32(0)))[0]
