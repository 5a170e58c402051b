"""Connectivity of graphs inside a compiled program: a test for it, and a loop that draws until a graph is connected."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

# The largest number of draws of a random graph. If one draw in twenty is connected, 100 draws give a connected graph
# for 99.4 % of the seeds.
TRIES = 100


def reachable(adjacency: jax.Array) -> jax.Array:
    """Compute which clients hear which others over any number of hops.

    The boolean matrix is squared log2(N) times.

    Args:
      adjacency: [N, N] bool; [i, j] is true where i hears j.

    Returns:
      [N, N] bool; [i, j] is true where i hears j over some hops. Every client reaches itself.
    """
    num_clients = adjacency.shape[0]
    # Only the sign of the products matters. Sums of ones are positive in any precision, so single precision is enough.
    near = (adjacency | jnp.eye(num_clients, dtype=bool)).astype(jnp.float32)
    square = lambda _, reach: (reach @ reach > 0).astype(jnp.float32)  # noqa: E731
    return jax.lax.fori_loop(0, max(num_clients - 1, 1).bit_length(), square, near) > 0


def is_connected(adjacency: jax.Array) -> jax.Array:
    """Test whether every client hears every other one over some hops.

    A directed graph must be strongly connected.

    Args:
      adjacency: [N, N] bool; [i, j] is true where i hears j.

    Returns:
      [] bool.

    >>> bool(is_connected(jnp.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], bool)))
    True
    """
    return jnp.all(reachable(adjacency))


def joined(adjacency: jax.Array) -> jax.Array:
    """Make an undirected graph connected with the fewest additional links.

    The clients with the smallest index of each component are joined in a chain.

    Args:
      adjacency: [N, N] bool, symmetric.

    Returns:
      [N, N] bool, symmetric and connected.

    >>> joined(jnp.zeros((3, 3), bool)).astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """
    index = jnp.arange(adjacency.shape[0])
    is_first = jnp.argmax(reachable(adjacency), axis=1) == index  # true for the smallest index of each component
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
    reach: Callable[[jax.Array], jax.Array] = reachable,
) -> jax.Array:
    """Draw a graph until it is connected, at most `TRIES` times.

    Args:
      draw: (key) -> adjacency [N, N] bool, or what ``reach`` takes.
      key: typed key. The index of each try is folded into it.
      otherwise: (adjacency) -> adjacency. It is applied to the last draw if no draw was connected.
      allow_disconnected: if true, the first draw is returned as it is.
      like: [N, N] bool. If it is given, a draw need not be connected; it must only reach the same pairs of clients as
        this graph.
      reach: (adjacency) -> an array that is equal for two graphs in which the same clients reach each other.

    Returns:
      adjacency: [N, N] bool.
    """

    wanted = jnp.bool_(True) if like is None else reach(like)

    def again(carry: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        tries, _, done = carry
        return ~done & (tries < TRIES)

    def attempt(carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        tries, _, _ = carry
        adjacency = draw(jax.random.fold_in(key, tries))
        return tries + 1, adjacency, jnp.all(reach(adjacency) == wanted) | jnp.asarray(allow_disconnected, bool)

    first = attempt((jnp.int32(0), jnp.zeros((0, 0), bool), jnp.bool_(False)))
    _, adjacency, done = jax.lax.while_loop(again, attempt, first)
    return jnp.where(done, adjacency, otherwise(adjacency))
