"""The order of a round: with the same key, clients that move first have the links of the next round."""

import jax
import numpy as np
import pytest
from worlds import played

from mdfl_jax.core.sharding import Held
from mdfl_jax.mobility import Motion
from mdfl_jax.networks import SpatialParams, move_first, rule_numbers, spatial

N, ROUNDS = 8, 6
CLIENTS = Held(np.arange(1, N + 1, dtype=np.int32), np.eye(N, 3, dtype=np.int32))
GRID = SpatialParams(4, 2.0, 3.0)
PLANE = SpatialParams(
    3, 60.0, motion=Motion(width=200.0, height=200.0), rules=rule_numbers(("random_walk",), speed_max=30.0)
)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("network", "params"),
    [
        (spatial(N, 6, ("dam",), links_fail=True), GRID._replace(link_failure=0.3)),
        (spatial(N, mobility=("random_walk",), max_neighbours=N - 1), PLANE),
    ],
    ids=["failing", "lists"],
)
def test_the_links_are_those_of_the_next_round(network, params):
    """Bit by bit: links, weights and places of round t are those that the other order has in round t + 1."""
    states, links = played(network, params, ROUNDS + 1, CLIENTS)
    first_states, first_links = played(move_first(network), params, ROUNDS, CLIENTS)
    for shown, usual in zip(jax.tree.leaves(first_links), jax.tree.leaves(links), strict=True):
        np.testing.assert_array_equal(shown, usual[1:])
    np.testing.assert_array_equal(first_states.places.position, states.places.position[1:])
    assert (links.adjacency[1:] != links.adjacency[:-1]).any()
