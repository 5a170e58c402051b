"""The spatial network in the plane: sums of many rounds, and what is drawn: links that fail, and radii."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import holding, played

from mdfl_jax.mobility import Motion, Movement
from mdfl_jax.mobility.registry import rule_numbers
from mdfl_jax.networks.link_filters import draw_radii, failure_probability, surviving
from mdfl_jax.networks.spatial import SpatialParams, spatial

N, ROUNDS = 12, 5
MOTION = Motion(width=200.0, height=200.0)
STATIC = Movement("static", world="plane")
WALK = rule_numbers(("random_walk",), speed_max=20.0)


def run(network, params, rounds=ROUNDS):
    """States before each round, with places and paths, and links round by round."""
    states, links = played(network, params, rounds, holding(np.full(N, 4)))
    return jax.tree.map(lambda leaf: leaf[:-1], states), links


def test_the_distances_of_many_short_rounds_add_up():
    """Rounds of 0.139 m, but for those with a turn: a plain sum in single precision loses the fifth digit."""
    rules = rule_numbers(("random_waypoint",), speed_min=1.39, speed_max=1.39)
    params = SpatialParams(2, 40.0, motion=Motion(200.0, 200.0, 0.1), rules=rules)
    states, _ = played(spatial(2, mobility=("random_waypoint",)), params, 20_000)
    total = states.speed[1:].sum(axis=0, dtype=float)
    np.testing.assert_allclose(states.places.distance_moved[-1], total, rtol=1e-6)
    assert (np.abs(np.cumsum(states.speed[1:], axis=0)[-1] / total - 1) > 1e-5).all()


@pytest.mark.long
def test_links_fail_by_direction_and_only_within_contact():
    network = spatial(N, mobility=("random_walk",), links_fail=True)
    params = SpatialParams(0, 90.0, motion=MOTION, rules=WALK)
    whole = run(spatial(N, mobility=("random_walk",)), params, rounds=40)[1].adjacency
    for failure, low, high in ((0.0, 0, 0), (0.3, 0.25, 0.35), (1.0, 1, 1)):
        links = run(network, params._replace(link_failure=failure), rounds=40)[1]
        assert not (links.adjacency & ~whole).any()
        lost = 1 - links.adjacency.sum() / whole.sum()
        assert low <= lost <= high
        np.testing.assert_allclose(links.mix.sum(-1), 1, rtol=1e-5)
        if failure == 0.3:
            assert (links.adjacency != np.swapaxes(links.adjacency, 1, 2)).any()
            assert (links.adjacency[1] != links.adjacency[2]).any()


def test_fading_grows_with_the_squared_distance():
    squared = jnp.array([[0.0, 25.0, 100.0, 400.0]])
    np.testing.assert_allclose(failure_probability(squared, jnp.float32(10), 0.1, 0.4), [[0.1, 0.2, 0.5, 0.5]])
    np.testing.assert_allclose(failure_probability(squared, jnp.inf, 0.1, 0.4), [[0.1] * 4])
    np.testing.assert_allclose(failure_probability(squared[:, :1], jnp.float32(0), 0.9, 0.4), [[0.9]])
    all_on = surviving(
        jax.random.key(0), jnp.ones((300, 300), bool), failure_probability(squared[0, 1], 10.0, 0.1, 0.4)
    )
    assert abs(float(all_on.mean()) - 0.8) < 0.01


@pytest.mark.long
def test_radii_are_drawn_once_in_their_range():
    radius = run(spatial(N, mobility=(STATIC,)), SpatialParams(3, 80.0, radius_spread=0.5, motion=MOTION))[0].radius
    assert (radius == radius[0]).all()
    assert len(np.unique(radius[0])) == N
    assert (np.abs(radius - 80) <= 40).all()
    endless = draw_radii(jax.random.key(0), jnp.inf, jnp.float32(1.0), 500)
    assert np.isinf(endless).all()
