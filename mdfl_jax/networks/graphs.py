"""Graphs by name: links that do not depend on the clients' places. `mdfl_jax.networks.fixed` makes networks of them.

The deterministic graphs are in this file; the random ones are in `mdfl_jax.networks.random_graphs`. A graph is made
inside the compiled program from a seed's key and traced numbers. So each seed has its own random graph, and a sweep
over the degree needs no new compilation.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.registry import Registry


class GraphParams(NamedTuple):
    """Traced numbers of a network whose links come from a graph.

    Attributes:
      numbers: the numbers of the graph, an instance of the class that the graph is registered with. None takes the
        defaults.
      mixing: the numbers of the mixing rule. None takes the defaults.
      allow_disconnected: if true, the first draw of a random graph is used even if it is not connected.
      link_failure: the probability that a link fails, drawn for each round and each direction.
      matrices: [T, N, N] for `mdfl_jax.networks.fixed.given`, used instead of the matrices that it was called with.
      link_filter: the numbers of the network's link filter, if it has one.
    """

    numbers: Any = None
    mixing: Any = None
    allow_disconnected: Any = False
    link_failure: Any = 0.0
    matrices: Any = None
    link_filter: Any = None


def _any_size(num_clients: int) -> None:
    del num_clients


class Graph(NamedTuple):
    """A kind of graph, as pure functions.

    Attributes:
      draw: (params, key, N) -> what is drawn once for each seed, usually the adjacency [N, N] bool, where [i, j] says
        that i hears j. There are no self loops. The graph's numbers are ``params.numbers``.
      at: (what was drawn, round, N) -> adjacency [N, N] bool of a round.
      directed: whether a link may have one direction only.
      fixed: whether the links are the same in every round.
      regular: whether all clients have the same number of links. Uniform weights are then symmetric, unless the graph
        is directed.
      check_size: (N) -> None. It raises `UserError` for an N for which no such graph exists.
      heard: (round, N) -> [N, D] int32, the clients that each client hears in a round, for neighbour lists; an entry
        may be the client itself, which is no link. None: the graph is a matrix only.
    """

    draw: Callable[[GraphParams, jax.Array, int], Any]
    at: Callable[[Any, jax.Array, int], jax.Array] = lambda drawn, round_index, num_clients: drawn
    directed: bool = False
    fixed: bool = True
    regular: bool = False
    check_size: Callable[[int], None] = _any_size
    heard: Callable[[jax.Array, int], jax.Array] | None = None


GRAPHS: Registry[Graph] = Registry("graph")


def steps_apart(num_clients: int) -> jax.Array:
    """Return [N, N] int32 with (i - j) mod N, the number of steps backwards on the circle from i to j."""
    index = jnp.arange(num_clients, dtype=jnp.int32)
    return (index[:, None] - index[None, :]) % num_clients


def on_ring(num_clients: int) -> jax.Array:
    """Return [N, N] int32 with the steps between two clients on the circle, in the shorter direction."""
    apart = steps_apart(num_clients)
    return jnp.minimum(apart, num_clients - apart)


def rows_and_columns(num_clients: int) -> tuple[int, int]:
    """Return the factors rows x columns = N that are closest to each other, with rows <= columns.

    >>> rows_and_columns(12), rows_and_columns(7)
    ((3, 4), (1, 7))
    """
    rows = next(r for r in range(math.isqrt(num_clients), 0, -1) if num_clients % r == 0)
    return rows, num_clients // rows


def back_by(num_clients: int, steps: jax.Array) -> jax.Array:
    """Return the clients that are some steps backwards on the circle from each client, [N, D], for D steps."""
    return ((jnp.arange(num_clients, dtype=jnp.int32)[:, None] - steps[None, :]) % num_clients).astype(jnp.int32)


def _check_torus(num_clients: int) -> None:
    rows, columns = rows_and_columns(num_clients)
    if rows < 3:
        raise UserError(
            f"network.num_clients is {num_clients}; a torus needs rows x columns = N with 3 of each or more, and the "
            f"most square for this N is {rows} x {columns}"
        )


def _torus(params: GraphParams, key: jax.Array, num_clients: int) -> jax.Array:
    del params, key
    rows, columns = rows_and_columns(num_clients)
    index = jnp.arange(num_clients)
    row, column = index // columns, index % columns
    up, across = on_ring(rows)[row[:, None], row[None, :]], on_ring(columns)[column[:, None], column[None, :]]
    return up + across == 1


def _heard_on_torus(round_index: jax.Array, num_clients: int) -> jax.Array:
    del round_index
    rows, columns = rows_and_columns(num_clients)
    index, both_ways = jnp.arange(num_clients, dtype=jnp.int32)[:, None], jnp.array([1, -1])
    row, column = index // columns, index % columns
    up, across = (row + both_ways) % rows, (column + both_ways) % columns
    return jnp.concatenate([up * columns + column, row * columns + across], axis=1).astype(jnp.int32)


def _star(params: GraphParams, key: jax.Array, num_clients: int) -> jax.Array:
    del params, key
    is_hub = jnp.arange(num_clients) == 0
    return is_hub[:, None] != is_hub[None, :]


def _check_barbell(num_clients: int) -> None:
    if num_clients < 4:
        raise UserError(f"network.num_clients is {num_clients}; a barbell needs 4 or more, two in each clique")


def _barbell(params: GraphParams, key: jax.Array, num_clients: int) -> jax.Array:
    del params, key
    index, half = jnp.arange(num_clients), num_clients // 2
    same = (index < half)[:, None] == (index < half)[None, :]
    is_end = (index == half - 1) | (index == half)
    return (same | (is_end[:, None] & is_end[None, :])) & ~jnp.eye(num_clients, dtype=bool)


def num_hops(num_clients: int) -> int:
    """Return tau = ceil(log2 N), the number of the hops 1, 2, 4, ... that are below N.

    >>> [num_hops(n) for n in (1, 2, 3, 8, 9)]
    [0, 1, 2, 3, 4]
    """
    return (num_clients - 1).bit_length()


def _exponential(params: GraphParams, key: jax.Array, num_clients: int) -> jax.Array:
    del params, key
    apart = steps_apart(num_clients)
    return (apart > 0) & (jnp.bitwise_and(apart, apart - 1) == 0)


def _one_peer(drawn: None, round_index: jax.Array, num_clients: int) -> jax.Array:
    del drawn
    hop = jnp.left_shift(1, jnp.mod(round_index, max(num_hops(num_clients), 1)))
    apart = steps_apart(num_clients)
    return (apart == hop) & (apart > 0)


def _heard_from_one_peer(round_index: jax.Array, num_clients: int) -> jax.Array:
    hop = jnp.left_shift(1, jnp.mod(round_index, max(num_hops(num_clients), 1)))
    return back_by(num_clients, hop[None])


GRAPHS.register("ring", doc="Each hears the one before and the one after: degree 2.")(
    Graph(
        lambda params, key, n: on_ring(n) == 1,
        regular=True,
        heard=lambda round_index, n: back_by(n, jnp.array([1, -1])),
    )
)

GRAPHS.register("torus", doc="A grid of rows x columns = N, the most square, closed at its edges: degree 4.")(
    Graph(_torus, regular=True, check_size=_check_torus, heard=_heard_on_torus)
)

GRAPHS.register("star", doc="Client 0 hears everybody, the others hear client 0 only.")(Graph(_star))

GRAPHS.register("complete", doc="Everybody hears everybody.")(
    Graph(lambda params, key, n: ~jnp.eye(n, dtype=bool), regular=True)
)

GRAPHS.register("barbell", doc="Two cliques of N / 2 (the second has one more where N is odd), joined by one link.")(
    Graph(_barbell, check_size=_check_barbell)
)

# The in-degree and the out-degree are both tau. So metropolis_hastings, uniform and max_degree all give the paper's
# weights 1 / (tau + 1). These are doubly stochastic but not symmetric.
GRAPHS.register(
    "exponential", doc="i hears i - 2^k mod N, k < tau = ceil(log2 N) (Ying et al., NeurIPS 2021, static exponential)."
)(Graph(_exponential, directed=True, regular=True, heard=lambda _, n: back_by(n, 2 ** jnp.arange(max(num_hops(n), 1)))))

GRAPHS.register("one_peer_exponential", doc="In round t only the hop 2^(t mod tau) (Ying et al., 2021).")(
    Graph(lambda params, key, n: None, _one_peer, directed=True, fixed=False, regular=True, heard=_heard_from_one_peer)
)
