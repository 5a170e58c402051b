"""Random graphs, drawn inside the compiled program for each seed, again and again until they are connected."""

import math

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.networks.connected import TRIES, until_connected
from mdfl_jax.networks.graphs import GRAPHS, Graph, GraphParams, on_ring

SWAPS = 20  # swaps tried for each link; after about ten, the chain hardly depends on the circulant graph it began with
LEAST_CHANCE = 0.05  # a study is refused if the probability of a connected draw is below this


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
    # All degrees are equal. So a uniform client and a uniform neighbour of it are a uniform link in a random direction.
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
    """The numbers of the graph ``random_regular``."""

    degree: int = number(4, "links of a client", at_least=1)

    def check(self, setting: Setting) -> None:
        """Check that such a graph exists and that it can be connected."""
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
    """The numbers of the graph ``erdos_renyi``."""

    degree: int = number(4, "mean number of links of a client", at_least=1)
    probability: float = number(0.0, "probability of a link; 0 computes it from the degree", at_least=0, at_most=1)

    def check(self, setting: Setting) -> None:
        """Check that a connected draw is not too rare."""
        num_clients = setting.num_clients
        if self.probability == 0:
            _check_degree(self.degree, setting)
        if setting.allow_disconnected or num_clients < 2:
            return
        chance = self.probability or self.degree / (num_clients - 1)
        # In the limit of Erdos and Renyi, a draw is connected nearly if and only if no client is isolated.
        connected = math.exp(-num_clients * (1 - chance) ** (num_clients - 1))
        if connected < LEAST_CHANCE:
            field = f"graph.probability is {chance:g}" if self.probability else f"graph.degree is {self.degree}"
            raise UserError(
                f"{field}; of {num_clients} clients one draw in {1 / max(connected, 1e-9):.3g} is connected, and "
                f"{TRIES} are made: make it larger, or set graph.allow_disconnected"
            )


class SmallWorldNumbers(Numbers):
    """The numbers of the graph ``small_world``."""

    degree: int = number(4, "links of a client before rewiring, even", at_least=1)
    rewire: float = number(0.1, "probability that a link is moved to another client", at_least=0, at_most=1)

    def check(self, setting: Setting) -> None:
        """Check that the degree is even and below N."""
        _check_degree(self.degree, setting)
        if self.degree % 2:
            raise UserError(f"graph.degree is {self.degree}; for small_world it must be even")


def _check_degree(degree: int, setting: Setting) -> None:
    if not degree < setting.num_clients:
        raise UserError(f"graph.degree is {degree}; it must be less than network.num_clients, {setting.num_clients}")


# The draw is nearly uniform. It is a long Markov chain of double-edge swaps. The chain is symmetric and reaches every
# such graph, so its limit is uniform. It begins with the circulant graph. If none of 100 draws is connected, the
# circulant graph is used.
GRAPHS.register("random_regular", RegularNumbers, "Uniform among the connected graphs in which all have degree links.")(
    Graph(_random_regular, regular=True)
)

# If none of 100 draws is connected, the components of the last one are joined in a chain.
GRAPHS.register(
    "erdos_renyi", ErdosRenyiNumbers, "Each link is there with one probability, given that the graph is connected."
)(Graph(_erdos_renyi))

# Watts and Strogatz (Nature 1998). Links are visited hop by hop and client by client. A link is moved to a client drawn
# from those that are not neighbours yet. If none of 100 draws is connected, the components of the last one are joined.
GRAPHS.register(
    "small_world",
    SmallWorldNumbers,
    "A circle of nearest neighbours, some links led elsewhere (Watts and Strogatz).",
)(Graph(_small_world))
