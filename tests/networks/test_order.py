"""The order of a round: with the same key, clients that move first have the links of the next round."""

import jax
import numpy as np
import pytest
from oracles.grid_world import disc
from worlds import played

from mdfl_jax.core.sharding import Held
from mdfl_jax.mobility import Motion, Movement
from mdfl_jax.networks import SpatialParams, move_first, rule_numbers, spatial
from mdfl_jax.networks.costs import CostParams, Work, link_filter
from mdfl_jax.networks.wrappers.roadside import RoadsideParams, at_units, roadside

N, ROUNDS = 8, 6
STATIC = Movement("static", world="plane")
CLIENTS = Held(np.arange(1, N + 1, dtype=np.int32), np.eye(N, 3, dtype=np.int32))
GRID = SpatialParams(4, 2.0, 3.0)
PLANE = SpatialParams(
    3, 60.0, motion=Motion(width=200.0, height=200.0), rules=rule_numbers(("random_walk",), speed_max=30.0)
)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("network", "params"),
    [
        (spatial(N, 6, ("dcm",), mixing="fedavg"), GRID),
        (spatial(N, 6, ("dam",), links_fail=True), GRID._replace(link_failure=0.3)),
        (spatial(N, mobility=("random_walk",), mixing="speed_aware", contact="swept"), PLANE),
        (spatial(N, mobility=("random_walk",), max_neighbours=N - 1), PLANE),
    ],
    ids=["grid", "failing", "swept", "lists"],
)
def test_the_links_are_those_of_the_next_round(network, params):
    """Bit by bit: links, weights and places of round t are those that the other order has in round t + 1."""
    states, links = played(network, params, ROUNDS + 1, CLIENTS)
    first_states, first_links = played(move_first(network), params, ROUNDS, CLIENTS)
    for shown, usual in zip(jax.tree.leaves(first_links), jax.tree.leaves(links), strict=True):
        np.testing.assert_array_equal(shown, usual[1:])
    np.testing.assert_array_equal(first_states.places.position, states.places.position[1:])
    assert (links.adjacency[1:] != links.adjacency[:-1]).any()


def test_clients_mix_where_the_move_of_the_round_has_brought_them():
    """Round by round in DADFL's order: from the drawn start, one movement, then the links. t movements count then."""
    start = jax.jit(spatial(N, 6, ("random_movement",)).init)(GRID, jax.random.key(0), CLIENTS).places.position
    states, links = played(move_first(spatial(N, 6, ("random_movement",))), GRID, ROUNDS, CLIENTS)
    assert (np.linalg.norm(states.places.position[0] - start, axis=1) > 0)[:4].any()
    for t in range(ROUNDS):
        np.testing.assert_array_equal(links.adjacency[t], disc(states.places.position[t], 2.0))
    legs = np.linalg.norm(np.diff(states.places.position, axis=0), axis=-1)
    np.testing.assert_allclose(states.places.distance_moved[1:], np.cumsum(legs, axis=0), rtol=1e-5)
    assert (states.places.distance_moved[0] == 0).all()


@pytest.mark.long
def test_no_message_begins_before_the_first_round():
    """Messages that take three rounds of a lasting contact arrive in the third one, not in the second."""
    cost = CostParams(link_messages=1.0, bandwidth=1.0, link_bits=2.5, round_seconds=1.0)
    filtered = link_filter(Work(), "resume")
    network = spatial(N, mobility=(STATIC,), contact="swept", link_filter=filtered)
    params = PLANE._replace(radius=np.inf, link_filter=cost, rules=rule_numbers((STATIC,)))
    _, links = played(move_first(network), params, ROUNDS, CLIENTS)
    assert links.adjacency.any(axis=(1, 2)).tolist() == [False, False, True] * 2
    _, links = played(network, params, ROUNDS, CLIENTS)  # nobody is in contact in the first round
    assert links.adjacency.any(axis=(1, 2)).tolist() == [False, False, False, True, False, False]


@pytest.mark.long
def test_clients_meet_the_server_where_they_mix():
    inner, units = move_first(spatial(N, 6, ("random_movement",))), np.array([[3.0, 3.0]])
    states, links = played(roadside(inner, ROUNDS), RoadsideParams(GRID, units, 2.0), ROUNDS, CLIENTS)
    for t in range(ROUNDS):
        np.testing.assert_array_equal(links.at_server[t], at_units(states.inner.places.position[t], units, 2.0))
    met = np.maximum.accumulate(np.where(links.at_server, np.arange(ROUNDS)[:, None], -1))
    np.testing.assert_array_equal(links.last_server, met)
    assert links.at_server.any()
