"""The spatial network in the plane: what contact, radios and failing links make of a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import plane_world
from worlds import holding, played

from mdfl_jax.core.errors import UserError
from mdfl_jax.mobility import Motion, Movement
from mdfl_jax.mobility.registry import rule_numbers
from mdfl_jax.networks.link_filters import draw_radii, failure_probability, surviving
from mdfl_jax.networks.mixing import SpeedAwareNumbers
from mdfl_jax.networks.spatial import SpatialParams, spatial

N, ROUNDS = 12, 5
MOTION = Motion(width=200.0, height=200.0)
STATIC = Movement("static", world="plane")
WALK = rule_numbers(("random_walk",), speed_max=20.0)


def run(network, params, rounds=ROUNDS):
    """States before each round, with places and paths, and links round by round."""
    states, links = played(network, params, rounds, holding(np.full(N, 4)))
    return jax.tree.map(lambda leaf: leaf[:-1], states), links


def test_swept_contact_is_of_the_movement_since_the_last_round():
    network = spatial(N, mobility=("random_walk",), mixing="speed_aware", contact="swept")
    states, links = run(network, SpatialParams(3, 40.0, motion=MOTION, rules=WALK, mixing=SpeedAwareNumbers(ratio=1.0)))
    assert not links.adjacency[0].any()  # nobody before the first movement
    np.testing.assert_array_equal(links.mix[0], np.eye(N))
    assert links.adjacency[1:].any()
    for t in range(1, ROUNDS):
        np.testing.assert_allclose(states.path.points[t, :, 0], states.places.position[t - 1], atol=1e-5)
        np.testing.assert_allclose(states.path.points[t, :, -1], states.places.position[t], atol=1e-5)
        distance = plane_world.exact_distance(states.path.times[t], states.path.points[t])
        clear = np.abs(distance - 40) > 1e-2
        expected = (distance <= 40) & ~np.eye(N, dtype=bool)
        np.testing.assert_array_equal(links.adjacency[t][clear], expected[clear])
        closed = links.adjacency[t] | np.eye(N, dtype=bool)
        speed = np.where(closed, states.speed[t], 0)
        np.testing.assert_allclose(links.mix[t], speed / speed.sum(1, keepdims=True), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(states.places.distance_moved[-1], states.speed[1:].sum(0), rtol=1e-4)
    discs = run(spatial(N, mobility=("random_walk",)), SpatialParams(3, 40.0, motion=MOTION, rules=WALK))[1]
    assert links.adjacency.sum() > discs.adjacency[1:].sum()


def test_the_distances_of_many_short_rounds_add_up():
    """Rounds of 0.139 m, but for those with a turn: a plain sum in single precision loses the fifth digit."""
    rules = rule_numbers(("random_waypoint",), speed_min=1.39, speed_max=1.39)
    params = SpatialParams(2, 40.0, motion=Motion(200.0, 200.0, 0.1), rules=rules)
    states, _ = played(spatial(2, mobility=("random_waypoint",)), params, 20_000)
    total = states.speed[1:].sum(axis=0, dtype=float)
    np.testing.assert_allclose(states.places.distance_moved[-1], total, rtol=1e-6)
    assert (np.abs(np.cumsum(states.speed[1:], axis=0)[-1] / total - 1) > 1e-5).all()


def test_the_grid_can_be_swept_too_straight_from_place_to_place():
    states, links = run(spatial(N, 6, contact="swept"), SpatialParams(6, 1.0, 5.0))
    for t in range(1, ROUNDS):
        path = np.stack([states.places.position[t - 1], states.places.position[t]], axis=1)
        distance = plane_world.exact_distance(np.tile([0.0, 1.0], (N, 1)), path)
        clear = np.abs(distance - 1) > 1e-4
        np.testing.assert_array_equal(links.adjacency[t][clear], ((distance <= 1) & ~np.eye(N, dtype=bool))[clear])


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
    swept_links = run(
        spatial(N, mobility=("random_walk",), contact="swept", links_fail=True), params._replace(link_failure=0.0)
    )[1]
    same = run(spatial(N, mobility=("random_walk",), contact="swept"), params)[1]
    np.testing.assert_array_equal(swept_links.adjacency, same.adjacency)


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
    states, links = run(spatial(N, mobility=(STATIC,)), SpatialParams(3, 80.0, radius_spread=0.5, motion=MOTION))
    radius = states.radius
    assert (radius == radius[0]).all()
    assert len(np.unique(radius[0])) == N
    assert (np.abs(radius - 80) <= 40).all()
    place = states.places.position[0]
    far = np.linalg.norm(place[:, None] - place[None], axis=-1)
    expected = (far <= np.minimum.outer(radius[0], radius[0])) & ~np.eye(N, dtype=bool)
    np.testing.assert_array_equal(links.adjacency[0], expected)
    given = np.linspace(10, 120, N).astype(np.float32)
    states, _ = run(spatial(N, mobility=(STATIC,)), SpatialParams(3, given, motion=MOTION))
    np.testing.assert_array_equal(states.radius[0], given)
    endless = draw_radii(jax.random.key(0), jnp.inf, jnp.float32(1.0), 500)
    assert np.isinf(endless).all()


def test_worlds_do_not_mix():
    with pytest.raises(UserError, match="must live in one world: static in the grid, random_walk in the plane"):
        spatial(N, mobility=("static", "random_walk"))
