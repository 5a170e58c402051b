"""Graphs drawn by chance, each seed its own, inside the program; drawn again until connected."""

import math

import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError
from mdfl_jax.networks.connected import TRIES, until_connected
from mdfl_jax.networks.graphs import GRAPHS, Graph, GraphParams, on_ring
from mdfl_jax.numbers import Numbers, Setting, number

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
    """The probability of a link of erdos_renyi: as given, or from the mean degree."""
    return jnp.where(numbers.probability > 0, numbers.probability, numbers.degree / max(num_clients - 1, 1))


def _small_world(params: GraphParams, key: jax.Array, num_clients: int) -> jax.Array:
    lattice = circulant(num_clients, params.numbers.degree)
    index = jnp.arange(num_clients)

    def rewired(key: jax.Array, graph: jax.Array, k: jax.Array) -> jax.Array:
        i, hop = k % num_clients, k // num_clients + 1
        j = (i + hop) % num_clients
        key_moves, key_to = jax.random.split(jax.random.fold_in(key, k))
        free = ~graph[i] & (index != i)
        to = jnp.argmax(jnp.where(free, jax.random.uniform(key_to, (num_clients,)), -1.0))
        moves = (jax.random.uniform(key_moves) < params.numbers.rewire) & jnp.any(free)
        end = jnp.where(moves, to, j)
        graph = graph.at[jnp.stack([i, j]), jnp.stack([j, i])].set(False)
        return graph.at[jnp.stack([i, end]), jnp.stack([end, i])].set(True)

    def draw(key: jax.Array) -> jax.Array:
        links = num_clients * (jnp.asarray(params.numbers.degree, jnp.int32) // 2)
        return jax.lax.fori_loop(0, links, lambda k, graph: rewired(key, graph, k), lattice)

    return until_connected(draw, key, allow_disconnected=params.allow_disconnected)


class RegularNumbers(Numbers):
    """Of random regular graphs."""

    degree: int = number(4, "links of a client", at_least=1)

    def check(self, setting: Setting) -> None:
        """Such a graph exists, and can be connected."""
        _check_degree(self.degree, setting)
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
    """Of Erdos-Renyi graphs."""

    degree: int = number(4, "mean number of links of a client", at_least=1)
    probability: float = number(0.0, "probability of a link, 0: by the degree", at_least=0, at_most=1)

    def check(self, setting: Setting) -> None:
        """A connected draw is not too rare."""
        num_clients = setting.num_clients
        if self.probability == 0:
            _check_degree(self.degree, setting)
        if setting.allow_disconnected or num_clients < 2:
            return
        chance = self.probability or self.degree / (num_clients - 1)
        # A draw is connected nearly if and only if nobody is isolated: Erdos and Renyi's limit.
        connected = math.exp(-num_clients * (1 - chance) ** (num_clients - 1))
        if connected < LEAST_CHANCE:
            field = f"graph.probability is {chance:g}" if self.probability else f"graph.degree is {self.degree}"
            raise UserError(
                f"{field}; of {num_clients} clients one draw in {1 / max(connected, 1e-9):.3g} is connected, and "
                f"{TRIES} are made: make it larger, or set graph.allow_disconnected"
            )


class SmallWorldNumbers(Numbers):
    """Of small worlds."""

    degree: int = number(4, "links of a client before rewiring, even", at_least=1)
    rewire: float = number(0.1, "probability that a link is led elsewhere", at_least=0, at_most=1)

    def check(self, setting: Setting) -> None:
        """An even degree, below N."""
        _check_degree(self.degree, setting)
        if self.degree % 2:
            raise UserError(f"graph.degree is {self.degree}; for small_world it must be even")


def _check_degree(degree: int, setting: Setting) -> None:
    if not degree < setting.num_clients:
        raise UserError(f"graph.degree is {degree}; it must be less than network.num_clients, {setting.num_clients}")


# Nearly uniform: a long chain of double-edge swaps. The chain is symmetric and reaches every such graph, so its limit
# is uniform; it begins with the circulant graph, which is what there is where no draw of 100 was connected.
GRAPHS.register("random_regular", RegularNumbers, "Uniform among the connected graphs in which all have degree links.")(
    Graph(_random_regular, regular=True)
)

# Where no draw of 100 was connected, the components of the last one are joined in a chain.
GRAPHS.register(
    "erdos_renyi", ErdosRenyiNumbers, "Each link is there with one probability, given that the graph is connected."
)(Graph(_erdos_renyi))

# Watts and Strogatz (Nature 1998); hop by hop, client by client, to somebody drawn among those who are no neighbours.
GRAPHS.register(
    "small_world",
    SmallWorldNumbers,
    "A circle of nearest neighbours, some links led elsewhere (Watts and Strogatz).",
)(Graph(_small_world))
