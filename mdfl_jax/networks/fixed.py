"""Networks of clients tied by a graph and not by their places: a fixed one, one a seed, or a given list."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.mobility.contact_list import on_circle
from mdfl_jax.networks.graphs import GRAPHS, Graph, GraphParams
from mdfl_jax.networks.mixing import MIXINGS, SYMMETRIC_MIXINGS, Heard
from mdfl_jax.networks.radio import surviving
from mdfl_jax.rng import stream, stream_at
from mdfl_jax.types import FIXED, SYMMETRIC, Clients, Links, Network, Places

TOLERANCE = 1e-5  # of row sums of given weights


class GraphState(NamedTuple):
    """What a seed has drawn, and the clients' places on the unit circle, for maps."""

    drawn: Any
    places: Places


def _init(graph: Graph, num_clients: int) -> Any:
    def init(params: GraphParams, key: jax.Array, clients: Clients) -> GraphState:
        del clients
        world = on_circle(num_clients)
        drawn = graph.draw(params, stream(key, "placement"), num_clients)
        return GraphState(drawn, Places(world.start, jnp.zeros(num_clients), world.is_mobile))

    return init


def _weighed(graph: Graph, num_clients: int, weights: str, links_fail: bool) -> Network:
    """The network of a graph whose weights a rule of `MIXINGS` gives."""
    weigh, own = MIXINGS[weights], MIXINGS.numbers(weights)()
    symmetric = weights in SYMMETRIC_MIXINGS or (weights == "uniform" and graph.regular)
    promises = {SYMMETRIC: symmetric and not graph.directed, FIXED: graph.fixed}

    def step(
        params: GraphParams, key: jax.Array, round_index: jax.Array, state: GraphState, clients: Clients
    ) -> tuple[GraphState, Links]:
        contact = graph.at(state.drawn if params.matrices is None else params.matrices, round_index, num_clients)
        adjacency = contact
        if links_fail:
            adjacency = surviving(stream_at(key, "link", round_index), contact, params.link_failure)
        at_rest, everywhere = jnp.zeros(num_clients), jnp.array(jnp.inf)
        heard = Heard(adjacency, contact, clients.num_samples, at_rest, everywhere, (params.mixing or own).typed())
        return state, Links(adjacency, weigh(heard))

    return Network(
        num_clients=num_clients,
        gives=frozenset({"adjacency", "mix"} | {name for name, kept in promises.items() if kept and not links_fail}),
        init=_init(graph, num_clients),
        step=step,
        places=lambda state: state.places,
    )


def fixed_graph(
    num_clients: int, graph: str = "ring", weights: str = "metropolis_hastings", links_fail: bool = False
) -> Network:
    """Clients tied by a graph, the same in every round (one_peer_exponential: by the round); nobody moves.

    ``hparams.network`` is a `GraphParams`. Random graphs are drawn from a seed's stream "placement".

    Args:
      num_clients: N >= 1.
      graph: a name of `mdfl_jax.networks.graphs.GRAPHS`.
      weights: a name of `mdfl_jax.networks.mixing.MIXINGS`; those that ask for speeds take all for equal.
      links_fail: whether links fail, as ``link_failure`` says.

    Raises:
      UserError: for an unknown name, or an N that has no such graph.
    """
    rule, own = GRAPHS[graph], GRAPHS.numbers(graph)()
    rule.check_size(num_clients)
    draw = lambda params, key, n: rule.draw(params._replace(numbers=(params.numbers or own).typed()), key, n)  # noqa: E731
    return _weighed(rule._replace(draw=draw), num_clients, weights, links_fail)


def at_round(matrices: Any, round_index: jax.Array) -> jax.Array:
    """The matrix of a round of a list that begins again: [T, N, N] -> [N, N]."""
    return jnp.asarray(matrices)[jnp.mod(round_index, len(matrices))]


def given(matrices: Any, weights: str = "metropolis_hastings", links_fail: bool = False) -> Network:
    """A list of graphs or of weights, one a round, that begins again after its end.

    Args:
      matrices: [T, N, N], or [N, N] for all rounds. Booleans say who hears whom ([i, j]: i hears j), and ``weights``
        weighs them. Numbers are the weights, and who has a weight other than zero is heard.
      weights: a name of `mdfl_jax.networks.mixing.MIXINGS`, of booleans.
      links_fail: whether links of booleans fail, as ``link_failure`` says.

    Returns:
      A network that gives SYMMETRIC and FIXED where the matrices are so. ``hparams.network`` is a `GraphParams`; where
      its ``matrices`` are set, they stand in for these, as an argument of the program.

    Raises:
      UserError: for a wrong shape, self loops, numbers that are not finite, or rows that do not sum to one.
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
        return _weighed(graph, num_clients, weights, links_fail)
    if links_fail:
        raise UserError("network.link_failure needs links; these matrices are weights")

    def step(
        params: GraphParams, key: jax.Array, round_index: jax.Array, state: GraphState, clients: Clients
    ) -> tuple[GraphState, Links]:
        del key, clients
        mix = at_round(table if params.matrices is None else params.matrices, round_index)
        return state, Links((mix != 0) & ~own, mix.astype(float))

    symmetric = np.allclose(table, table.swapaxes(1, 2), rtol=0, atol=TOLERANCE)
    return Network(
        num_clients=num_clients,
        gives=frozenset({"adjacency", "mix"} | ({SYMMETRIC} if symmetric else set()) | ({FIXED} if fixed else set())),
        init=_init(Graph(draw=lambda params, key, n: None), num_clients),
        step=step,
        places=lambda state: state.places,
    )


def check_matrices(table: np.ndarray) -> None:
    """Checks matrices [T, N, N] of links (booleans) or weights.

    Raises:
      UserError: naming what is wrong and where.
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
    wrong = np.argwhere(np.abs(table.sum(axis=2) - 1) > TOLERANCE)
    if len(wrong):
        t, i = wrong[0]
        raise UserError(f"the weights of client {i} sum to {table[t, i].sum():g} in matrix {t}; rows must sum to 1")
