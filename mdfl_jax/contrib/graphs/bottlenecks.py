"""Graphs of which one client or one link carries everything: the star and the barbell."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.networks.graphs import GRAPHS, Graph, GraphParams


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


GRAPHS.register(
    "star", doc="Client 0 hears everybody, the others hear client 0 only.", formula="i hears j if i = 0 or j = 0"
)(Graph(_star))

GRAPHS.register(
    "barbell",
    doc="Two cliques of N / 2 (the second has one more where N is odd), joined by one link.",
    formula="i hears j in its own clique; one client of each clique hears one of the other",
)(Graph(_barbell, check_size=_check_barbell))
