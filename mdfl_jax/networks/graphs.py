"""Graphs by name: links that do not depend on the clients' places. `mdfl_jax.networks.fixed` makes networks of them.

The deterministic graphs come first, then the random ones, which are drawn again and again until they are connected. A
graph is made inside the compiled program from a seed's key and traced numbers. So each seed has its own random graph,
and a sweep over the degree needs no new compilation. A file of this folder that registers a graph adds it.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbering import natural, numbered_clients
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.core.registry import Registry

SWAPS = 20  # swaps tried for each link; after about ten, the chain hardly depends on the circulant graph it began with
LEAST_CHANCE = 0.05  # a study is refused if the probability of a connected draw is below this
# The largest number of draws of a random graph. If one draw in twenty is connected, 100 draws give a connected graph
# for 99.4 % of the seeds.
_TRIES = 100


def array_of(graph: Any) -> np.ndarray:
    """Return a graph of Python as an array: of a graph of networkx [N, N] bool, else what its numbers are.

    Raises:
      UserError: if it is neither a graph of networkx nor an array of two or three axes, or what becomes one.
    """
    if hasattr(graph, "adjacency") and hasattr(graph, "nodes"):
        place = {node: k for k, node in enumerate(sorted(graph, key=natural))}
        table = np.zeros((len(place), len(place)), bool)
        for node, neighbours in graph.adjacency():
            table[place[node], [place[other] for other in neighbours]] = True
        return table
    try:
        table = np.asarray(graph.toarray() if hasattr(graph, "toarray") else graph)
    except ValueError:  # lists of unequal lengths
        table = np.array(None)
    if table.dtype.kind not in "biuf" or table.ndim not in (2, 3) or not table.size:
        has = f" {list(table.shape)} of {table.dtype}" if table.shape else ""
        raise UserError(
            f"graph is {type(graph).__name__}{has}; allowed: a graph of networkx, a matrix [N, N] or [T, N, N], or a "
            "list of edges (i, j) or (i, j, weight)"
        )
    return table


def holds_edges(graph: Any, table: np.ndarray) -> bool:
    """Tell whether a graph of Python is a list of edges (i, j) or (i, j, weight); otherwise it is a matrix, or several.

    A square array is a matrix. Rows that are tuples are edges. Two or three rows that are lists may be a square matrix
    or edges: they are edges if i and j are whole numbers and the rows cannot be links or weights.

    Args:
      graph: the graph.
      table: the same, from `array_of`.

    >>> for graph in ([(0, 1), (1, 2)], [[0, 1], [1, 2]], [[0, 1], [1, 0]], [[0.5, 0.5], [0.5, 0.5]]):
    ...     print(holds_edges(graph, array_of(graph)))
    True
    True
    False
    False
    """
    if table.ndim != 2 or table.shape[1] not in (2, 3):
        return False
    if table.shape[0] != table.shape[1]:
        return True
    if not isinstance(graph, list | tuple) or table.dtype == bool:
        return False
    is_matrix = np.isin(table, (0, 1)).all() or np.allclose(table.sum(axis=1), 1)
    return isinstance(graph[0], tuple) or bool((table[:, :2] == np.round(table[:, :2])).all() and not is_matrix)


def links_in(graph: Any) -> np.ndarray:
    """Return a graph of Python as `array_of`, and a list of edges as the links [N, N] bool of its clients.

    The weights of edges do not count. Clients are numbered in ascending order if there is no client 0.

    Raises:
      UserError: as `array_of`, or for edges that are not of two whole numbers from 0.
    """
    table = array_of(graph)
    if not holds_edges(graph, table):
        return table
    pairs = table[:, :2].astype(np.int64)
    if (wrong := (pairs != table[:, :2]).any(axis=1) | (pairs < 0).any(axis=1) | (pairs[:, 0] == pairs[:, 1])).any():
        edge = ", ".join(f"{client:g}" for client in table[wrong][0, :2].astype(float))
        raise UserError(f"graph has the edge ({edge}); allowed: two different clients, whole numbers from 0")
    pairs, _ = numbered_clients(pairs, [])
    i, j = pairs.T
    size = int(pairs.max()) + 1
    links = np.zeros((size, size), bool)
    links[i, j] = links[j, i] = True
    return links


def heard_over_hops(adjacency: jax.Array) -> jax.Array:
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


def make_connected(adjacency: jax.Array) -> jax.Array:
    """Make an undirected graph connected with the fewest additional links.

    The clients with the smallest index of each component are joined in a chain.

    Args:
      adjacency: [N, N] bool, symmetric.

    Returns:
      [N, N] bool, symmetric and connected.

    >>> make_connected(jnp.zeros((3, 3), bool)).astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """
    index = jnp.arange(adjacency.shape[0])
    is_first = jnp.argmax(heard_over_hops(adjacency), axis=1) == index  # true for the smallest index of each component
    latest = jax.lax.cummax(jnp.where(is_first, index, -1))
    previous = jnp.concatenate([jnp.array([-1], latest.dtype), latest[:-1]])
    link = (previous[:, None] == index[None, :]) & is_first[:, None]
    return adjacency | link | link.T


def until_connected(
    draw: Callable[[jax.Array], jax.Array],
    key: jax.Array,
    otherwise: Callable[[jax.Array], jax.Array] = make_connected,
    allow_disconnected: jax.Array | bool = False,
    like: jax.Array | None = None,
    reach: Callable[[jax.Array], jax.Array] = heard_over_hops,
) -> jax.Array:
    """Draw a graph until it is connected, at most `TRIES` times.

    Args:
      draw: (key) -> adjacency [N, N] bool, or what ``reach`` takes.
      key: typed key. The index of each try is folded into it.
      otherwise: (adjacency) -> adjacency, applied to the last draw if no draw was connected.
      allow_disconnected: if true, the first draw is returned as it is.
      like: [N, N] bool. If it is given, a draw must connect the same pairs of clients as this graph, and no more.
      reach: (adjacency) -> an array that is equal for two graphs in which the same clients reach each other.

    Returns:
      adjacency: [N, N] bool.
    """

    wanted = jnp.bool_(True) if like is None else reach(like)

    def again(carry: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        tries, _, done = carry
        return ~done & (tries < _TRIES)

    def attempt(carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        tries, _, _ = carry
        adjacency = draw(jax.random.fold_in(key, tries))
        return tries + 1, adjacency, jnp.all(reach(adjacency) == wanted) | jnp.asarray(allow_disconnected, bool)

    first = attempt((jnp.int32(0), jnp.zeros((0, 0), bool), jnp.bool_(False)))
    _, adjacency, done = jax.lax.while_loop(again, attempt, first)
    return jnp.where(done, adjacency, otherwise(adjacency))


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


GRAPHS: Registry[Graph] = Registry("graph", home="mdfl_jax.networks", contrib="graphs")


def on_ring(num_clients: int) -> jax.Array:
    """Return [N, N] int32 with the steps between two clients on the circle, in the shorter direction."""
    index = jnp.arange(num_clients, dtype=jnp.int32)
    apart = (index[:, None] - index[None, :]) % num_clients
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


def of_lists(heard: Callable[[jax.Array, int], jax.Array], fixed: bool = True, **facts: Any) -> Graph:
    """Make a regular graph from the clients that each client hears, as for `Graph.heard`."""

    def at(round_index: jax.Array, num_clients: int) -> jax.Array:
        rows, own = jnp.arange(num_clients)[:, None], jnp.eye(num_clients, dtype=bool)
        return jnp.zeros_like(own).at[rows, heard(round_index, num_clients)].set(True) & ~own

    if fixed:
        return Graph(lambda params, key, n: at(jnp.int32(0), n), regular=True, heard=heard, **facts)
    each_round = lambda drawn, round_index, n: at(round_index, n)  # noqa: E731
    return Graph(lambda params, key, n: None, each_round, fixed=False, regular=True, heard=heard, **facts)


def _check_torus(num_clients: int) -> None:
    rows, columns = rows_and_columns(num_clients)
    if rows < 3:
        raise UserError(
            f"network.num_clients is {num_clients}; a torus needs rows x columns = N with 3 of each or more, and the "
            f"most square for this N is {rows} x {columns}"
        )


def _heard_on_torus(round_index: jax.Array, num_clients: int) -> jax.Array:
    del round_index
    rows, columns = rows_and_columns(num_clients)
    index, both_ways = jnp.arange(num_clients, dtype=jnp.int32)[:, None], jnp.array([1, -1])
    row, column = index // columns, index % columns
    up, across = (row + both_ways) % rows, (column + both_ways) % columns
    return jnp.concatenate([up * columns + column, row * columns + across], axis=1).astype(jnp.int32)


def num_hops(num_clients: int) -> int:
    """Return tau = ceil(log2 N), the number of the hops 1, 2, 4, ... that are below N.

    >>> [num_hops(n) for n in (1, 2, 3, 8, 9)]
    [0, 1, 2, 3, 4]
    """
    return (num_clients - 1).bit_length()


GRAPHS.register(
    "ring", doc="Each hears the one before and the one after: degree 2.", formula="i hears i - 1, i + 1 mod N"
)(of_lists(lambda round_index, n: back_by(n, jnp.array([1, -1]))))

GRAPHS.register(
    "torus",
    doc="A grid of rows x columns = N, the most square, closed at its edges: degree 4.",
    formula="(r, c) hears (r +- 1 mod rows, c) and (r, c +- 1 mod columns)",
)(of_lists(_heard_on_torus, check_size=_check_torus))

GRAPHS.register("complete", doc="Everybody hears everybody.", formula="i hears j for all j != i")(
    Graph(lambda params, key, n: ~jnp.eye(n, dtype=bool), regular=True)
)

# The in-degree and the out-degree are both tau. So metropolis_hastings, uniform and max_degree all give the paper's
# weights 1 / (tau + 1), which are doubly stochastic but not symmetric.
GRAPHS.register(
    "exponential",
    doc="The static exponential graph: each hears those at distances 1, 2, 4, ... before it.",
    formula="i hears i - 2^k mod N, k < tau = ceil(log2 N)",
    cite="ying2021",
)(of_lists(lambda round_index, n: back_by(n, 2 ** jnp.arange(max(num_hops(n), 1))), directed=True))


def circulant(num_clients: int, degree: jax.Array) -> jax.Array:
    """Make the circulant graph in which each client hears the ``degree`` nearest clients on the circle.

    Args:
      num_clients: N.
      degree: [] int, at least 0 and below N. If it is odd, N must be even, and each client also hears the opposite one.

    Returns:
      [N, N] bool, symmetric.
    """
    steps, half = on_ring(num_clients), jnp.asarray(degree, jnp.int32) // 2
    opposite = (jnp.asarray(degree) % 2 == 1) & (2 * steps == num_clients)
    return ((steps > 0) & (steps <= half)) | opposite


def _swap(adjacency: jax.Array, key: jax.Array) -> jax.Array:
    """Replace two random links (a, b) and (c, d) by (a, d) and (c, b), unless one is there already or is a loop."""
    num_clients = adjacency.shape[0]
    key_ends, key_links = jax.random.split(key)
    # All degrees are equal, so a uniform client and a uniform neighbour of it are a uniform link in a random direction.
    ends = jax.random.randint(key_ends, (2,), 0, num_clients)
    noise = jax.random.uniform(key_links, (2, num_clients))
    others = jnp.argmax(jnp.where(adjacency[ends], noise, -1.0), axis=1)
    (a, c), (b, d) = ends, others
    ok = (a != d) & (c != b) & ~adjacency[a, d] & ~adjacency[c, b]
    old_rows, old_columns = jnp.stack([a, b, c, d]), jnp.stack([b, a, d, c])
    new_rows, new_columns = jnp.stack([a, d, c, b]), jnp.stack([d, a, b, c])
    # A refused swap writes the values that are there already. So entries that are written twice get the same value.
    adjacency = adjacency.at[new_rows, new_columns].set(adjacency[new_rows, new_columns] | ok)
    return adjacency.at[old_rows, old_columns].set(~ok)


def _random_regular(params: GraphParams, key: jax.Array, num_clients: int) -> jax.Array:
    start = circulant(num_clients, params.numbers.degree)
    swaps = SWAPS * num_clients * jnp.asarray(params.numbers.degree, jnp.int32) // 2

    def draw(key: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, swaps, lambda k, graph: _swap(graph, jax.random.fold_in(key, k)), start)

    return until_connected(draw, key, lambda _: start, params.allow_disconnected)


def _erdos_renyi(params: GraphParams, key: jax.Array, num_clients: int) -> jax.Array:
    chance = link_probability(num_clients, params.numbers)

    def draw(key: jax.Array) -> jax.Array:
        upper = jnp.triu(jax.random.uniform(key, (num_clients, num_clients)) < chance, 1)
        return upper | upper.T

    return until_connected(draw, key, allow_disconnected=params.allow_disconnected)


def link_probability(num_clients: int, numbers: "ErdosRenyiNumbers") -> jax.Array:
    """Return the link probability of ``erdos_renyi``, [] float: as given or, if that is 0, from the mean degree."""
    return jnp.where(numbers.probability > 0, numbers.probability, numbers.degree / max(num_clients - 1, 1))


class RegularNumbers(Numbers):
    """The numbers of the graph ``random_regular``."""

    degree: int = number(4, "links of a client", at_least=1)

    def check(self, setting: Setting) -> None:
        """Check that such a graph exists and that it can be connected."""
        check_degree(self.degree, setting)
        if self.degree * setting.num_clients % 2:
            raise UserError(
                f"graph.degree is {self.degree} and network.num_clients {setting.num_clients}; for random_regular one "
                "of the two must be even"
            )
        if self.degree < 2 < setting.num_clients and not setting.allow_disconnected:
            raise UserError(
                f"graph.degree is {self.degree}; a connected random_regular of {setting.num_clients} clients needs 2 "
                "or more"
            )


class ErdosRenyiNumbers(Numbers):
    """The numbers of the graph ``erdos_renyi``."""

    degree: int = number(4, "mean number of links of a client", at_least=1)
    probability: float = number(0.0, "probability of a link; 0 computes it from the degree", at_least=0, at_most=1)

    def check(self, setting: Setting) -> None:
        """Check that a connected draw is not too rare."""
        num_clients = setting.num_clients
        if self.probability == 0:
            check_degree(self.degree, setting)
        if setting.allow_disconnected or num_clients < 2:
            return
        chance = self.probability or self.degree / (num_clients - 1)
        # In the limit of Erdos and Renyi, a draw is connected nearly if and only if no client is isolated.
        connected = math.exp(-num_clients * (1 - chance) ** (num_clients - 1))
        if connected < LEAST_CHANCE:
            field = f"graph.probability is {chance:g}" if self.probability else f"graph.degree is {self.degree}"
            raise UserError(
                f"{field}; of {num_clients} clients one draw in {1 / max(connected, 1e-9):.3g} is connected, and "
                f"{_TRIES} are made: make it larger, or set graph.allow_disconnected"
            )


def check_degree(degree: int, setting: Setting) -> None:
    """Check that a client can have as many links.

    Raises:
      UserError: if it cannot.
    """
    if not degree < setting.num_clients:
        raise UserError(f"graph.degree is {degree}; it must be less than network.num_clients, {setting.num_clients}")


GRAPHS.register(
    "random_regular",
    RegularNumbers,
    """A random graph in which all clients have the same number of links.

    The draw is nearly uniform. It is a long Markov chain of double-edge swaps. The chain is symmetric and reaches every
    such graph, so its limit is uniform. It begins with the circulant graph. If none of 100 draws is connected, the
    circulant graph is used.
    """,
    formula="uniform among the connected graphs in which every client has degree links",
)(Graph(_random_regular, regular=True))

GRAPHS.register(
    "erdos_renyi",
    ErdosRenyiNumbers,
    """A random graph in which each link is there with the same probability.

    If none of 100 draws is connected, the components of the last one are joined in a chain.
    """,
    formula="P(i and j are linked) = probability, or degree / (N - 1); given that the graph is connected",
    cite="erdos1960",
)(Graph(_erdos_renyi))
