"""Graphs drawn by chance, each seed its own, inside the program; drawn again until connected."""

import math

import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError
from mdfl_jax.networks.connected import TRIES, until_connected
from mdfl_jax.networks.graphs import GRAPHS, Graph, GraphParams, on_ring

SWAPS = 20  # tried a link; the chain forgets the circulant graph after some ten
LEAST_CHANCE = 0.05  # of a connected draw, below which a study is refused


def circulant(num_clients: int, degree: jax.Array) -> jax.Array:
    """Each hears the ``degree`` nearest on the circle: [N, N] bool. An odd degree (N even) takes the opposite too."""
    steps, half = on_ring(num_clients), jnp.asarray(degree, jnp.int32) // 2
    opposite = (jnp.asarray(degree) % 2 == 1) & (2 * steps == num_clients)
    return ((steps > 0) & (steps <= half)) | opposite


def _swap(adjacency: jax.Array, key: jax.Array) -> jax.Array:
    """Two random links (a, b) and (c, d) become (a, d) and (c, b), unless a link would be double or a loop."""
    num_clients = adjacency.shape[0]
    key_ends, key_links = jax.random.split(key)
    ends = jax.random.randint(key_ends, (2,), 0, num_clients)  # all have one degree: a uniform end of a uniform link
    noise = jax.random.uniform(key_links, (2, num_clients))
    others = jnp.argmax(jnp.where(adjacency[ends], noise, -1.0), axis=1)
    (a, c), (b, d) = ends, others
    ok = (a != d) & (c != b) & ~adjacency[a, d] & ~adjacency[c, b]
    old_rows, old_columns = jnp.stack([a, b, c, d]), jnp.stack([b, a, d, c])
    new_rows, new_columns = jnp.stack([a, d, c, b]), jnp.stack([d, a, b, c])
    # A swap that is refused writes what stands there already, so that places written twice are written alike.
    adjacency = adjacency.at[new_rows, new_columns].set(adjacency[new_rows, new_columns] | ok)
    return adjacency.at[old_rows, old_columns].set(~ok)


def _random_regular(params: GraphParams, key: jax.Array, num_clients: int) -> jax.Array:
    start = circulant(num_clients, params.degree)
    swaps = SWAPS * num_clients * jnp.asarray(params.degree, jnp.int32) // 2

    def draw(key: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, swaps, lambda k, graph: _swap(graph, jax.random.fold_in(key, k)), start)

    return until_connected(draw, key, lambda _: start, params.allow_disconnected)


def _check_degree(num_clients: int, params: GraphParams) -> None:
    if not params.degree < num_clients:
        raise UserError(f"graph.degree is {params.degree}; it must be less than network.num_clients, {num_clients}")


def _check_regular(num_clients: int, params: GraphParams) -> None:
    _check_degree(num_clients, params)
    if params.degree * num_clients % 2:
        raise UserError(
            f"graph.degree is {params.degree} and network.num_clients {num_clients}; for random_regular one of the two "
            "must be even"
        )
    if params.degree < 2 < num_clients and not params.allow_disconnected:
        raise UserError(
            f"graph.degree is {params.degree}; a connected random_regular of {num_clients} clients needs 2 or more"
        )


def _erdos_renyi(params: GraphParams, key: jax.Array, num_clients: int) -> jax.Array:
    chance = link_probability(num_clients, params)

    def draw(key: jax.Array) -> jax.Array:
        upper = jnp.triu(jax.random.uniform(key, (num_clients, num_clients)) < chance, 1)
        return upper | upper.T

    return until_connected(draw, key, allow_disconnected=params.allow_disconnected)


def link_probability(num_clients: int, params: GraphParams) -> jax.Array:
    """The probability of a link of erdos_renyi: as given, or from the mean degree."""
    return jnp.where(params.probability > 0, params.probability, params.degree / max(num_clients - 1, 1))


def _check_erdos_renyi(num_clients: int, params: GraphParams) -> None:
    if params.probability == 0:
        _check_degree(num_clients, params)
    if params.allow_disconnected or num_clients < 2:
        return
    chance = params.probability or params.degree / (num_clients - 1)
    # A draw is connected nearly if and only if nobody is isolated: Erdos and Renyi's limit.
    connected = math.exp(-num_clients * (1 - chance) ** (num_clients - 1))
    if connected < LEAST_CHANCE:
        field = f"graph.probability is {chance:g}" if params.probability else f"graph.degree is {params.degree}"
        raise UserError(
            f"{field}; of {num_clients} clients one draw in {1 / max(connected, 1e-9):.3g} is connected, and "
            f"{TRIES} are made: make it larger, or set graph.allow_disconnected"
        )


def _small_world(params: GraphParams, key: jax.Array, num_clients: int) -> jax.Array:
    lattice = circulant(num_clients, params.degree)
    index = jnp.arange(num_clients)

    def rewired(key: jax.Array, graph: jax.Array, k: jax.Array) -> jax.Array:
        i, hop = k % num_clients, k // num_clients + 1
        j = (i + hop) % num_clients
        key_moves, key_to = jax.random.split(jax.random.fold_in(key, k))
        free = ~graph[i] & (index != i)
        to = jnp.argmax(jnp.where(free, jax.random.uniform(key_to, (num_clients,)), -1.0))
        moves = (jax.random.uniform(key_moves) < params.rewire) & jnp.any(free)
        end = jnp.where(moves, to, j)
        graph = graph.at[jnp.stack([i, j]), jnp.stack([j, i])].set(False)
        return graph.at[jnp.stack([i, end]), jnp.stack([end, i])].set(True)

    def draw(key: jax.Array) -> jax.Array:
        links = num_clients * (jnp.asarray(params.degree, jnp.int32) // 2)
        return jax.lax.fori_loop(0, links, lambda k, graph: rewired(key, graph, k), lattice)

    return until_connected(draw, key, allow_disconnected=params.allow_disconnected)


def _check_small_world(num_clients: int, params: GraphParams) -> None:
    _check_degree(num_clients, params)
    if params.degree % 2:
        raise UserError(f"graph.degree is {params.degree}; for small_world it must be even")


GRAPHS.register("random_regular")(Graph(_random_regular, regular=True, check_numbers=_check_regular))
"""Uniform among the connected graphs in which all have ``degree`` links, nearly: a long chain of double-edge swaps.

The chain is symmetric and reaches every such graph, so its limit is uniform; it begins with the circulant graph, which
is what there is where no draw of 100 was connected.
"""

GRAPHS.register("erdos_renyi")(Graph(_erdos_renyi, check_numbers=_check_erdos_renyi))
"""Each of the N (N - 1) / 2 links is there with one probability (Gilbert's model), given that the graph is connected.

Where no draw of 100 was connected, the components of the last one are joined in a chain.
"""

GRAPHS.register("small_world")(Graph(_small_world, check_numbers=_check_small_world))
"""Watts and Strogatz (Nature 1998): a circle with ``degree`` nearest neighbours, the far end of each link led elsewhere
with the probability ``rewire``, to somebody drawn among those who are no neighbours; hop by hop, client by client.
"""
