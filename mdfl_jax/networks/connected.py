"""Connectivity of graphs inside a program: is everybody reached from everybody, and draws until that is so."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

TRIES = 100  # draws of a random graph; with odds of one in twenty a draw, 99.4 % of the seeds are served by a draw


def reachable(adjacency: jax.Array) -> jax.Array:
    """Who hears whom over any number of hops, by squaring the boolean matrix log2(N) times.

    Args:
      adjacency: [N, N] bool, [i, j] where i hears j.

    Returns:
      [N, N] bool; everybody reaches themselves.
    """
    num_clients = adjacency.shape[0]
    # Sums of ones are positive in any precision, so the fastest float serves.
    near = (adjacency | jnp.eye(num_clients, dtype=bool)).astype(jnp.float32)
    square = lambda _, reach: (reach @ reach > 0).astype(jnp.float32)  # noqa: E731
    return jax.lax.fori_loop(0, max(num_clients - 1, 1).bit_length(), square, near) > 0


def is_connected(adjacency: jax.Array) -> jax.Array:
    """Whether everybody hears everybody over some hops (strongly, where links are directed): [] bool.

    >>> bool(is_connected(jnp.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], bool)))
    True
    """
    return jnp.all(reachable(adjacency))


def joined(adjacency: jax.Array) -> jax.Array:
    """An undirected graph made connected by the fewest links: the smallest members of its components in a chain.

    Args:
      adjacency: [N, N] bool, symmetric.

    >>> joined(jnp.zeros((3, 3), bool)).astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """
    index = jnp.arange(adjacency.shape[0])
    is_first = jnp.argmax(reachable(adjacency), axis=1) == index  # the smallest of its component
    latest = jax.lax.cummax(jnp.where(is_first, index, -1))
    previous = jnp.concatenate([jnp.array([-1], latest.dtype), latest[:-1]])
    link = (previous[:, None] == index[None, :]) & is_first[:, None]
    return adjacency | link | link.T


def until_connected(
    draw: Callable[[jax.Array], jax.Array],
    key: jax.Array,
    otherwise: Callable[[jax.Array], jax.Array] = joined,
    allow_disconnected: jax.Array | bool = False,
    like: jax.Array | None = None,
) -> jax.Array:
    """Draws a graph again until it is connected, `TRIES` times at most.

    Args:
      draw: (key) -> adjacency [N, N] bool.
      key: typed key; each try folds in its index.
      otherwise: what is made of the last draw where none was connected.
      allow_disconnected: takes the first draw as it is.
      like: [N, N] bool, a graph whose components are enough.

    Returns:
      adjacency: [N, N] bool.
    """

    wanted = jnp.bool_(True) if like is None else reachable(like)

    def again(carry: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        tries, _, done = carry
        return ~done & (tries < TRIES)

    def attempt(carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        tries, _, _ = carry
        adjacency = draw(jax.random.fold_in(key, tries))
        return tries + 1, adjacency, jnp.all(reachable(adjacency) == wanted) | jnp.asarray(allow_disconnected, bool)

    first = attempt((jnp.int32(0), jnp.zeros((0, 0), bool), jnp.bool_(False)))
    _, adjacency, done = jax.lax.while_loop(again, attempt, first)
    return jnp.where(done, adjacency, otherwise(adjacency))
