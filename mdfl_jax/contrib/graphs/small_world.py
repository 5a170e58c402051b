"""Small worlds: short ways between all clients, although most links are between near ones."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.networks.graphs import GRAPHS, Graph, GraphParams, check_degree, circulant, until_connected


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


class SmallWorldNumbers(Numbers):
    """The numbers of the graph ``small_world``."""

    degree: int = number(4, "links of a client before rewiring, even", at_least=1)
    rewire: float = number(0.1, "probability that a link is moved to another client", at_least=0, at_most=1)

    def check(self, setting: Setting) -> None:
        """Check that the degree is even and below N."""
        check_degree(self.degree, setting)
        if self.degree % 2:
            raise UserError(f"graph.degree is {self.degree}; for small_world it must be even")


GRAPHS.register(
    "small_world",
    SmallWorldNumbers,
    """A circle of nearest neighbours, some of whose links are led elsewhere.

    Links are visited hop by hop and client by client. A link is moved to a client drawn from those that are not
    neighbours yet. If none of 100 draws is connected, the components of the last one are joined.
    """,
    formula="the circulant graph of degree links; each is moved to a random client with probability rewire",
    cite="watts1998",
)(Graph(_small_world))
