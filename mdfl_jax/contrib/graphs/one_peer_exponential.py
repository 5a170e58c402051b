"""The exponential graph, of which each round has one hop."""

import jax
import jax.numpy as jnp

from mdfl_jax.networks.graphs import GRAPHS, back_by, num_hops, of_lists


def _heard_from_one_peer(round_index: jax.Array, num_clients: int) -> jax.Array:
    hop = jnp.left_shift(1, jnp.mod(round_index, max(num_hops(num_clients), 1)))
    return back_by(num_clients, hop[None])


GRAPHS.register(
    "one_peer_exponential",
    doc="The exponential graph with one hop in each round, in turns.",
    formula="in round t, i hears i - 2^(t mod tau) mod N",
    cite="ying2021",
)(of_lists(_heard_from_one_peer, fixed=False, directed=True))
