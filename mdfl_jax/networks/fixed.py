"""Networks whose links come from a graph and not from the clients' places.

The graph is the same for all seeds, or drawn once for each seed, or read from a given list.

Graphs and mixing matrices are also read from files, which are checked on the host before anything runs.
"""

import contextlib
import functools
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core import contract
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.links import ALL_PAIRS, Lists, Reach, Senders, from_pairs, heard_from
from mdfl_jax.core.numbering import natural, numbered_clients, numbering
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.rng import stream, stream_at
from mdfl_jax.core.tables import BELOW, EXACT
from mdfl_jax.core.types import FIXED, SYMMETRIC, Clients, Links, Network, Places
from mdfl_jax.data.files import arrays_in, number_rows, while_reading
from mdfl_jax.mobility.trace import on_circle
from mdfl_jax.networks.contact import Met
from mdfl_jax.networks.graphs import GRAPHS, Graph, GraphParams, array_of, holds_edges
from mdfl_jax.networks.link_filters import LinkFilter, surviving
from mdfl_jax.networks.mixing import MIXINGS, SYMMETRIC_MIXINGS, MixingInputs
from mdfl_jax.storage.given import held_file, open_file, read_text

_ARRAYS = (".npy", ".npz")
_BEGINNING = 2**16  # bytes
_TOLERANCE = 1e-5  # absolute tolerance of the row sums of given weights, and of their symmetry


class GraphState(NamedTuple):
    """The state of a network of a graph.

    Attributes:
      drawn: what the graph has drawn for this seed (`Graph.draw`), or its links as neighbour lists; None where nothing
        is drawn.
      places: the clients' places on the unit circle, which only maps use.
      filtered: the state of the link filter; None without one.
    """

    drawn: Any
    places: Places
    filtered: Any = None


def _places(graph: Graph, num_clients: int) -> int:
    """Return K of the neighbour lists of a graph: all that a client may hear or be heard by, and the client itself."""
    assert graph.heard is not None
    return (2 if graph.directed else 1) * graph.heard(jnp.int32(0), num_clients).shape[1] + 1


def _reach(graph: Graph, num_clients: int) -> Reach | None:
    """Return `Senders.reach` of a graph; None if it changes over the rounds."""
    if not graph.fixed or graph.heard is None:
        return None
    apart = (np.asarray(graph.heard(jnp.int32(0), num_clients)) - np.arange(num_clients)[:, None]) % num_clients
    return Reach(int(np.minimum(apart, num_clients - apart).max()))


def _listed(graph: Graph, round_index: jax.Array, num_clients: int, places: int) -> tuple[Senders, jax.Array]:
    """Return the links of a graph in a round as neighbour lists: the senders, and who hears whom [N, K] bool."""
    assert graph.heard is not None
    heard = graph.heard(round_index, num_clients)
    receiver, real = jax.lax.broadcasted_iota(jnp.int32, heard.shape, 0).ravel(), jnp.ones(heard.size, bool)
    senders = from_pairs(receiver, heard.ravel(), real, num_clients, places)
    return senders, heard_from(senders, receiver, heard.ravel(), real)


def _init(graph: Graph, num_clients: int, link_filter: LinkFilter | None = None, places: int = 0) -> Any:
    def init(params: GraphParams, key: jax.Array, clients: Clients) -> GraphState:
        world = on_circle(num_clients)
        if places:
            drawn = _listed(graph, jnp.int32(0), num_clients, places) if graph.fixed else None
        else:
            drawn = graph.draw(params, stream(key, "placement"), num_clients)
        filtered = link_filter.init(params.link_filter, key, clients, places) if link_filter else None
        return GraphState(drawn, Places(world.start, jnp.zeros(num_clients), world.is_mobile), filtered)

    return init


def _weighed(
    graph: Graph,
    num_clients: int,
    weights: str,
    links_fail: bool,
    link_filter: LinkFilter | None,
    places: int = 0,
) -> Network:
    """Make the network of a graph whose weights come from a rule of `MIXINGS`."""
    if link_filter and (link_filter.needs_seconds or link_filter.needs_distances):
        raise UserError(f"a graph knows no {'contact durations' if link_filter.needs_seconds else 'distances'}")
    weigh, own = MIXINGS[weights], MIXINGS.numbers(weights)()
    # A regular graph may not be regular without the links that a filter removes.
    symmetric = weights in SYMMETRIC_MIXINGS or (weights == "uniform" and graph.regular and link_filter is None)
    fixed = graph.fixed and (link_filter is None or link_filter.keeps_fixed)
    promises = {SYMMETRIC: symmetric and not graph.directed, FIXED: fixed}
    reach = _reach(graph, num_clients) if places else None

    def step(
        params: GraphParams, key: jax.Array, round_index: jax.Array, state: GraphState, clients: Clients
    ) -> tuple[GraphState, Links]:
        if places:
            listed, contact = state.drawn or _listed(graph, round_index, num_clients, places)
            senders = listed._replace(reach=reach)
        else:
            drawn = state.drawn if params.matrices is None else params.matrices
            senders, contact = ALL_PAIRS, graph.at(drawn, round_index, num_clients)
            contract.arrays(graph.draw, contact, (num_clients, num_clients), bool)
        met = Met(senders, contact)
        if link_filter:
            of_round = stream_at(key, "link", round_index)
            met, filtered = link_filter.step(params.link_filter, state.filtered, of_round, met)
            state = state._replace(filtered=filtered)
        adjacency = contact = met.heard
        if links_fail:
            adjacency = surviving(stream_at(key, "link", round_index), contact, params.link_failure, senders)
        at_rest, everywhere = jnp.zeros(num_clients), jnp.array(jnp.inf)
        numbers = (params.mixing or own).typed()
        inputs = MixingInputs(adjacency, contact, clients.num_samples, at_rest, everywhere, numbers, senders)
        mix = contract.arrays(weigh, weigh(inputs), adjacency.shape, float)
        return state, met.links(adjacency, mix)

    return Network(
        num_clients=num_clients,
        gives=frozenset({"adjacency", "mix"} | {name for name, kept in promises.items() if kept and not links_fail}),
        init=_init(graph, num_clients, link_filter, places),
        step=step,
        places=lambda state: state.places,
        lists=Lists(places) if places else None,
        metrics=link_filter.metrics if link_filter else (),
    )


def fixed_graph(
    num_clients: int,
    graph: str = "ring",
    weights: str = "metropolis_hastings",
    links_fail: bool = False,
    link_filter: LinkFilter | None = None,
    lists: bool = False,
) -> Network:
    """Make a network whose clients do not move and are linked by a graph.

    The graph is the same in every round, except for ``one_peer_exponential``, whose links depend on the round.
    ``hparams.network`` is a `GraphParams`. Random graphs are drawn from the stream "placement" of the seed.

    Args:
      num_clients: N >= 1.
      graph: a name of `mdfl_jax.networks.graphs.GRAPHS`.
      weights: a name of `mdfl_jax.networks.mixing.MIXINGS`. A rule that uses speeds sees a speed of zero for all.
      links_fail: whether links fail, with the probability ``link_failure``.
      link_filter: a rule that removes links before any fails and weights are made; None: all links stay.
      lists: whether the links are neighbour lists and not matrices [N, N].

    Returns:
      The network.

    Raises:
      UserError: for an unknown name, an N for which no such graph exists, a filter that needs contact durations, or
        ``lists`` of a graph that is a matrix only.
    """
    rule, own = GRAPHS[graph], GRAPHS.numbers(graph)()
    rule.check_size(num_clients)
    if lists and rule.heard is None:
        able = ", ".join(name for name in GRAPHS if GRAPHS[name].heard)
        raise UserError(f"engine.links is lists; network.graph={graph} is a matrix, neighbour lists exist for {able}")

    @functools.wraps(rule.draw)
    def draw(params: GraphParams, key: jax.Array, n: int) -> Any:
        return rule.draw(params._replace(numbers=(params.numbers or own).typed()), key, n)

    places = _places(rule, num_clients) if lists else 0
    return _weighed(rule._replace(draw=draw), num_clients, weights, links_fail, link_filter, places)


def at_round(matrices: Any, round_index: jax.Array) -> jax.Array:
    """Return the matrix of a round from a list that begins again after its end: [T, N, N] -> [N, N]."""
    return jnp.asarray(matrices)[jnp.mod(round_index, len(matrices))]


def given(
    matrices: Any, weights: str = "metropolis_hastings", links_fail: bool = False, link_filter: LinkFilter | None = None
) -> Network:
    """Make a network from a list of graphs or mixing matrices, one for each round.

    After its end the list begins again.

    Args:
      matrices: [T, N, N], or [N, N] for all rounds. Booleans are links ([i, j]: i hears j), and ``weights`` gives their
        mixing matrix. Numbers are mixing matrices, in which i hears j where the weight [i, j] is not zero.
      weights: a name of `mdfl_jax.networks.mixing.MIXINGS`; used for booleans only.
      links_fail: whether links fail, with the probability ``link_failure``; allowed for booleans only.
      link_filter: a rule that removes links, as in `fixed_graph`; allowed for booleans only.

    Returns:
      A network that promises SYMMETRIC and FIXED if the matrices are so. ``hparams.network`` is a `GraphParams`. If its
      ``matrices`` are set, they are used instead of those given here, as an argument of the program.

    Raises:
      UserError: for a wrong shape, self loops, numbers that are not finite, rows that do not sum to one, or weights
        together with ``links_fail`` or ``link_filter``.
    """
    table = np.asarray(matrices)
    table = table[None] if table.ndim == 2 else table
    check_matrices(table)
    num_clients = table.shape[-1]
    own = np.eye(num_clients, dtype=bool)
    heard = (table != 0) & ~own
    fixed = bool((heard == heard[:1]).all())
    if table.dtype == bool:
        degrees = heard.sum(axis=2)
        graph = Graph(
            draw=lambda params, key, n: table if params.matrices is None else None,
            at=lambda drawn, round_index, n: at_round(drawn, round_index),
            directed=not (heard == heard.swapaxes(1, 2)).all(),
            fixed=fixed,
            regular=bool((degrees == degrees[:, :1]).all()),
        )
        return _weighed(graph, num_clients, weights, links_fail, link_filter)
    if links_fail or link_filter:
        field = "network.link_failure" if links_fail else "cost.deadline"
        raise UserError(f"{field} needs links; these matrices are weights")

    def step(
        params: GraphParams, key: jax.Array, round_index: jax.Array, state: GraphState, clients: Clients
    ) -> tuple[GraphState, Links]:
        del key, clients
        mix = at_round(table if params.matrices is None else params.matrices, round_index)
        return state, Links((mix != 0) & ~own, mix.astype(float))

    symmetric = np.allclose(table, table.swapaxes(1, 2), rtol=0, atol=_TOLERANCE)
    return Network(
        num_clients=num_clients,
        gives=frozenset({"adjacency", "mix"} | ({SYMMETRIC} if symmetric else set()) | ({FIXED} if fixed else set())),
        init=_init(Graph(draw=lambda params, key, n: None), num_clients),
        step=step,
        places=lambda state: state.places,
    )


def check_matrices(table: np.ndarray) -> None:
    """Check matrices [T, N, N] of links (booleans) or weights (numbers).

    Raises:
      UserError: with the error and its place, if the matrices are not allowed.
    """
    if table.ndim != 3 or table.shape[1] != table.shape[2] or not table.size:
        shape = " x ".join(map(str, table.shape))
        raise UserError(f"an array of {shape}; matrices must be square, N x N or T x N x N")
    if table.dtype == bool:
        loops = np.argwhere(table[:, np.arange(table.shape[1]), np.arange(table.shape[1])])
        if len(loops):
            raise UserError(f"client {loops[0][1]} has a link to itself; a list of links holds no self loops")
        return
    if not np.isfinite(table).all():
        raise UserError("a weight is not finite")
    wrong = np.argwhere(np.abs(table.sum(axis=2) - 1) > _TOLERANCE)
    if len(wrong):
        t, i = wrong[0]
        raise UserError(f"the weights of client {i} sum to {table[t, i].sum():g} in matrix {t}; rows must sum to 1")


class Edges(NamedTuple):
    """A graph as another tool has saved it.

    Attributes:
      pairs: (i, j) of each link, names of any type: i hears j, and the other way round unless it is ``directed``.
      weights: the mixing weight of each link; [] where the file says none.
      nodes: the names of all nodes.
      directed: whether a pair stands for one direction.
    """

    pairs: list[tuple[Any, Any]]
    weights: list[float]
    nodes: list[Any]
    directed: bool = False


GRAPH_FILES: Registry[Callable[[str], Edges]] = Registry("ending of graph files", contrib="formats.graphs")
"""Readers of the texts of further graph files, by the endings of their names."""
EDGE_LIST = ".edgelist"  # the ending of networkx' edge lists, which are recognised by the braces in their lines


def read_matrices(
    path: str | Path,
    num_clients: int = 0,
    directed: bool | None = False,
    allow_disconnected: bool = False,
    notes: list[str] | None = None,
) -> np.ndarray:
    """Read the graphs or the mixing matrices of a file.

    Args:
      path: the file. An edge list has lines ``i,j``, perhaps after a line with N, or ``i,j,w`` with the mixing weight w
        of each link. Its clients are numbered in ascending order if there is no client 0. Other files have an N x N
        matrix as text, one array [N, N] or [T, N, N] in .npy or .npz, a sparse matrix that SciPy has saved, also as
        Matrix Market's .mtx, or are one of `GRAPH_FILES`. An array of zeros and ones only is read as links. Any other
        array is read as weights, whose rows must sum to one. A table is one of `mdfl_jax.core.tables.Rows`.
      num_clients: N; 0: as many as the file has.
      directed: if true, a line i,j or an entry [i, j] says only that i hears j. If false, a line of an edge list stands
        for both directions, and a matrix must hold both. None: as the graph says; an edge list has both directions.
      allow_disconnected: if true, the graph need not be connected. The links of all T graphs together count.
      notes: gets a line that says how the clients were numbered, if they are not numbered in the file.

    Returns:
      [T, N, N] bool for links or float for weights, as `mdfl_jax.networks.fixed.given` takes them.

    Raises:
      UserError: with the file's name and what is wrong with it.
    """
    where, ending, said = repr(str(path)), Path(path).suffix.lower(), [] if notes is None else notes
    with while_reading(where):
        if ending not in (*_ARRAYS, ".mtx", *GRAPH_FILES) and _has_braces(path):
            ending = EDGE_LIST
        if ending == ".mtx":
            table = _of_array(_of_market(path))
        elif ending in GRAPH_FILES:
            table = _of_edges(GRAPH_FILES[ending](read_text(path)), num_clients, directed, said)
        elif ending in _ARRAYS:
            arrays = arrays_in(path)
            if {"indices", "indptr", "shape", "data"} <= arrays.keys():
                arrays = {"": _dense(arrays)}
            if len(arrays) != 1:
                held = ", ".join(sorted(arrays)) or "none"
                raise UserError(f"it must hold one array, and holds {len(arrays)} ({held})")
            table = _of_array(*arrays.values())
        else:
            others = ", ".join((*_ARRAYS, ".mtx", *GRAPH_FILES))
            allowed = f"lines i,j or i,j,weight, a matrix N x N, or a file that ends in {others}"
            rows = number_rows(read_text(path, any_encoding=True), float, allowed, may_count=True)
            table = _of_text(rows, num_clients, directed, said)
        num_clients = num_clients or table.shape[-1]
        if table.shape[1:] != (num_clients, num_clients) and table.ndim == 3 and table.shape[1] == table.shape[2]:
            raise UserError(f"a graph of {table.shape[1]} clients; network.num_clients is {num_clients}")
        check_matrices(table)
        _check_links((table != 0) & ~np.eye(num_clients, dtype=bool), directed, allow_disconnected)
    return table


@contextlib.contextmanager
def graph_file(graph: Any) -> Iterator[str]:
    """Make a graph of Python known as a file inside the context, for `read_matrices`.

    Args:
      graph: a graph of networkx; a matrix [N, N] or [T, N, N] of NumPy, SciPy or nested lists; or a list of edges
        (i, j) or (i, j, weight), as `holds_edges` tells them. An edge i, j says that i hears j. The nodes of networkx
        are numbered in their order if they are not 0 to N - 1, and their weights do not count.

    Yields:
      The path for the field graph.file.

    Raises:
      UserError: if ``graph`` is none of these.
    """
    table, file = array_of(graph), io.BytesIO()
    if are_edges := holds_edges(graph, table):
        np.savetxt(file, table.astype(float), fmt="%.17g", delimiter=",")
    else:
        np.save(file, _of_array(table))  # equal graphs have equal names, whatever the types of their numbers
    with held_file("graph.txt" if are_edges else "graph.npy", file.getvalue()) as path:
        yield path


def _check_links(heard: np.ndarray, directed: bool | None, allow_disconnected: bool) -> None:
    one_way = np.argwhere(heard & ~heard.swapaxes(1, 2))
    if len(one_way) and directed is False:
        _, i, j = one_way[0]
        raise UserError(f"client {i} hears {j} and not the other way round; graph.directed takes that as it is")
    from scipy.sparse import csr_array  # imported here, since few studies read a graph
    from scipy.sparse.csgraph import connected_components

    parts, part = connected_components(csr_array(heard.any(axis=0)), connection="strong")
    if parts > 1 and not allow_disconnected:
        last = int(np.flatnonzero(heard.any(axis=(0, 1)) | heard.any(axis=(0, 2))).max(initial=-1))
        if last + 1 < len(part) and parts == len(part) - last:  # the others are connected
            raise UserError(f"the graph has the clients 0 to {last} only; network.num_clients is {len(part)}")
        smallest = np.argmin(np.bincount(part))
        alone = ", ".join(map(str, np.flatnonzero(part == smallest)[:5]))
        raise UserError(
            f"the graph is not connected: {parts} parts, one of them around client {alone}; graph.allow_disconnected "
            "takes it as it is"
        )


def _of_array(array: np.ndarray) -> np.ndarray:
    """Return an array as [T, N, N]: bool if it holds zeros and ones only, else float."""
    if array.dtype.kind not in "biuf":
        raise UserError(f"an array of {array.dtype}; it must hold booleans or numbers")
    table = array[None] if array.ndim == 2 else array
    return table.astype(bool) if np.isin(table, (0, 1)).all() else table.astype(np.float64)


def _dense(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return a sparse matrix that `scipy.sparse.save_npz` has written, in the format CSR, as an array."""
    from scipy.sparse import csr_array

    if arrays.get("format", np.array(b"csr")).item() not in (b"csr", "csr"):
        raise UserError("a sparse matrix of another format than CSR; scipy.sparse.csr_array converts it")
    try:
        parts = arrays["data"], arrays["indices"], arrays["indptr"]
        return csr_array(parts, shape=tuple(arrays["shape"].tolist())).toarray()
    except (ValueError, TypeError, IndexError) as error:
        raise UserError(f"it is no sparse matrix ({error})") from error


def _has_braces(path: str | Path) -> bool:
    """Tell whether the first lines of a text end in braces, as networkx writes the attributes of links."""
    with open_file(path) as file:
        lines = [line for line in file.read(_BEGINNING).splitlines() if line.strip() and not line.startswith(b"#")]
    return bool(lines) and lines[0].rstrip().endswith(b"}") and not lines[0].startswith(b"{")


def _of_market(path: str | Path) -> np.ndarray:
    """Return a matrix of Matrix Market as an array; a pattern has links."""
    from scipy.io import mmread

    with open_file(path) as file:
        matrix = mmread(file)
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())


def _of_edges(edges: Edges, num_clients: int, directed: bool | None, notes: list[str]) -> np.ndarray:
    """Return links or weights [1, N, N] of a graph whose nodes have names."""
    nodes = sorted(edges.nodes, key=natural)
    if nodes != list(range(len(nodes))):
        notes.append(numbering("clients", nodes))
    num_clients = num_clients or len(nodes)
    if len(nodes) != num_clients:
        raise UserError(f"a graph of {len(nodes)} clients; network.num_clients is {num_clients}")
    if edges.directed and directed is False:
        raise UserError("its links have one direction; graph.directed takes them as they are")
    place = {name: k for k, name in enumerate(nodes)}
    rows = [(0, [place[i], place[j], *edges.weights[k : k + 1]]) for k, (i, j) in enumerate(edges.pairs)]
    return _of_list(rows, num_clients, edges.directed) if rows else np.zeros((1, num_clients, num_clients), bool)


def _of_text(
    rows: list[tuple[int, list[float]]], num_clients: int, directed: bool | None, notes: list[str]
) -> np.ndarray:
    """Return links or weights [1, N, N] of an edge list or a matrix."""
    line, first = rows[0]
    if len(first) == 1 and rows[1:]:  # the number of clients, before an edge list
        if first[0] != (num_clients := num_clients or int(first[0])):
            raise UserError(f"line {line}: {first[0]:g} clients; network.num_clients is {num_clients}")
        rows = rows[1:]
    columns = len(rows[0][1])
    # The matrix of two linked clients, with the rows 0,1 and 1,0, also has two columns. Read as edges, it is the same.
    is_matrix = columns == len(rows) and columns != 2
    if is_matrix and columns == 3:  # three clients, or three edges with weights
        table = np.array([row for _, row in rows])
        is_matrix = bool(np.isin(table, (0, 1)).all() or np.allclose(table.sum(axis=1), 1))
    if is_matrix:
        return _of_array(np.array([row for _, row in rows]))
    if columns not in (2, 3):
        raise UserError(f"{len(rows)} rows of {columns} columns; a matrix must be square, an edge list i,j or i,j,w")
    pairs = np.array([row[:2] for _, row in rows])
    if (last := pairs.max()) >= EXACT:
        raise UserError(f"it names the client {last:.0f}; {BELOW}")
    if (pairs == np.round(pairs)).all() and not 0 < num_clients < len(np.unique(pairs)):
        pairs, _ = numbered_clients(pairs.astype(np.int64), notes)
        rows = [(k, [*pair, *row[2:]]) for (k, row), pair in zip(rows, pairs.tolist())]
    return _of_list(rows, num_clients or int(pairs.max()) + 1, directed)


def _of_list(rows: Sequence[tuple[int, list[float]]], num_clients: int, directed: bool | None) -> np.ndarray:
    """Return links or weights [1, N, N] of rows (line, [i, j] or [i, j, w])."""
    columns, weights = len(rows[0][1]), np.zeros((1, num_clients, num_clients))
    for k, (i, j, *weight) in rows:
        for client in (i, j):
            if client not in range(num_clients):
                known = f"clients are 0 to {num_clients - 1}, by network.num_clients"
                raise UserError(f"line {k}: client {client:g} is unknown; {known}")
        for a, b in {(int(i), int(j)), (int(j), int(i))} if not directed else {(int(i), int(j))}:
            value = weight[0] if weight else 1.0
            if weight and weights[0, a, b] not in (0, value):
                raise UserError(f"line {k}: the weight of {a},{b} is {value:g}, and was {weights[0, a, b]:g} before")
            weights[0, a, b] = value
    if columns == 2:
        return weights != 0
    own = 1 - weights[0].sum(axis=1)  # what is left of one is the weight of a client's own model
    if wrong := [i for i in range(num_clients) if own[i] < -1e-6]:
        raise UserError(f"the weights of client {wrong[0]} sum to {1 - own[wrong[0]]:g}; at most 1 is allowed")
    weights[0] += np.diag(own)
    return weights
