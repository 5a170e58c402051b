"""Meeting and cover times: hand-made links, the two-state chain, and the chain of random movement against a walk."""

import numpy as np
import pytest

from mdfl_jax.contrib.theory import walks
from mdfl_jax.contrib.theory.mixing import next_links
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.grid import grid_points
from mdfl_jax.mobility.rules.random_movement import uniform_chain


def adjacency_of(rounds, n):
    found = np.zeros((1, len(rounds), n, n), bool)
    for t, pairs in enumerate(rounds):
        for i, j in pairs:
            found[0, t, i, j] = found[0, t, j, i] = True
    return found


def hitting_times(chain, target):
    """The mean steps until a chain is in a set of states, by linear equations: h = 1 + P h outside of it, 0 inside."""
    found, outside = np.zeros(len(chain)), ~target
    rest = np.eye(outside.sum()) - chain[np.ix_(outside, outside)]
    found[outside] = np.linalg.solve(rest, np.ones(len(rest)))
    return found


def test_hand_made_meetings():
    """Client 0 is mobile. It meets 1 in rounds 1 and 3, and 2 in round 2 only."""
    following = next_links(adjacency_of([[], [(0, 1)], [(0, 2)], [(0, 1)]], 3))
    mobile = np.array([[True, False, False]])
    # From rounds 0 and 1, at most 2 rounds: client 1 after 1 and 0, client 2 after 2 and 1.
    assert walks.meeting_times(following, mobile) == pytest.approx([1.0])
    alone, together = walks.cover_times(following, mobile)
    assert (alone[0], together[0]) == (2, 2)


def test_hitting_times_from_the_fundamental_matrix_are_those_of_the_linear_equations():
    grid = grid_points(6)
    walk = walks.Walk(np.asarray(uniform_chain(grid, 2.0)), np.asarray(grid), radius=np.sqrt(2))
    for place in ([1, 1], [3, 5], [6, 6]):
        near = np.abs(np.asarray(grid) - place).max(1) <= 1
        np.testing.assert_allclose(walk.until(np.array(place)), hitting_times(walk.chain, near), atol=1e-8)


def test_the_chain_of_random_movement_is_its_law():
    """Uniform within Rm: the stationary law grows with the number of points in reach."""
    rule = MOBILITIES["random_movement"]()
    grid = grid_points(5)
    chain = np.asarray(rule.chain(grid, 2.0), np.float64)
    places = np.asarray(grid)
    reach = np.square(places[:, None] - places).sum(-1) <= 4
    np.testing.assert_allclose(chain, reach / reach.sum(1, keepdims=True), rtol=1e-6)
    law = walks.stationary(chain / chain.sum(1, keepdims=True))
    np.testing.assert_allclose(law, reach.sum(1) / reach.sum(), rtol=1e-6)
    assert MOBILITIES["dcm"]().chain is None
