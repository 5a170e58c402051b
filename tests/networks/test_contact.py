"""Contact in the disc and along paths, its duration, and neighbour lists: loops over pieces of time in float64."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import played

from mdfl_jax.core.errors import UserError
from mdfl_jax.networks.contact import closest_squared, contact_time, disc, standing_paths, swept, swept_neighbours
from mdfl_jax.networks.link_filters import draw_radii, failure_probability
from mdfl_jax.networks.spatial import SpatialParams, spatial
from tests.reference.world import time_within

SWEPT, CLOSEST, DISC, TIME = (jax.jit(function) for function in (swept, closest_squared, disc, contact_time))
LISTS = jax.jit(swept_neighbours, static_argnums=3)


def random_paths(seed, n=6, k=4, size=100.0):
    """Paths of k points with padding, repeated times and jumps."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0, 1, (n, k)), axis=1)
    times[:, 0], times[:, -1] = 0, 1
    points = rng.uniform(0, size, (n, k, 2))
    for i in range(0, n, 2):  # padded by repeating the end
        times[i, -2], points[i, -2] = 1, points[i, -1]
    points[1 % n] = points[1 % n, 0]  # one client stands still
    times[1::2, 1] = times[1::2, 2]
    return times.astype(np.float32), points.astype(np.float32)


def test_two_that_pass_within_a_moment_meet_and_so_do_two_that_touch_or_go_together():
    """They meet for a ten-thousandth of the round, touch at the end of the radius, or stay for all of it."""
    times = np.array([[0, 1], [0, 1]], np.float32)
    passing = np.array([[[0, 0], [10_000, 0]], [[10_007, 0.5], [3, 0.5]]], np.float32)
    touching = np.array([[[0, 0], [10, 0]], [[10, 3], [0, 3]]], np.float32)
    together = np.array([[[0, 0], [1e4, 5]], [[3, 0], [10_003, 5]]], np.float32)
    for path, near, far in ((passing, 0.6, 0.4), (touching, 3.0, 2.999), (together, 3.0, 2.9)):
        assert SWEPT(times, path, near)[0, 1]
        assert not SWEPT(times, path, far)[0, 1]
    assert [float(TIME(times, together, radius)[0, 1]) for radius in (np.inf, 3.0, 2.9)] == [1, 1, 0]


def test_a_radius_a_client_links_where_both_hear():
    """Over more clients than a block of rows; along paths, where nobody moves, and for how long."""
    times, points = random_paths(5, n=130)
    radius = np.random.default_rng(1).uniform(1, 30, 130).astype(np.float32)
    least = np.minimum.outer(radius, radius)
    others = ~np.eye(130, dtype=bool)
    expected = (np.asarray(CLOSEST(times, points)) <= least**2) & others
    np.testing.assert_array_equal(SWEPT(times, points, radius), expected)
    far = np.linalg.norm(points[:, None, 0] - points[None, :, 0], axis=-1)
    for found in (DISC(points[:, 0], radius), SWEPT(*standing_paths(points[:, 0]), radius)):
        np.testing.assert_array_equal(found, (far <= least) & others)
    found, paths = np.asarray(TIME(times, points, radius)), list(zip(times.astype(float), points.astype(float)))
    for i, j in itertools.combinations([0, 1, 63, 64, 100, 128, 129], 2):
        assert abs(found[i, j] - time_within(paths[i], paths[j], float(least[i, j]))) < 1e-3


def as_matrix(lists, n):
    """The adjacency that neighbour lists say; entries that are absent are the client itself."""
    ids, present, degree = map(np.asarray, lists)
    assert (ids[~present] == np.broadcast_to(np.arange(n)[:, None], ids.shape)[~present]).all()
    matrix = np.zeros((n, n), bool)
    rows, slots = np.nonzero(present)
    matrix[rows, ids[rows, slots]] = True
    assert matrix.sum() == present.sum()  # none twice
    return matrix, degree


@pytest.mark.long
@pytest.mark.parametrize(("n", "size"), [(1, 100.0), (70, 500.0), (700, 3000.0)])
def test_neighbour_lists_say_the_same(n, size):
    """Sizes with a part of a block, and several blocks and chunks, in a strip where many meet across their borders."""
    rng = np.random.default_rng(n)
    times, points = random_paths(n, n=n, size=60.0)
    points = points + rng.uniform(0, (size, size / 10), (n, 1, 2)).astype(np.float32)
    radius = rng.uniform(10, 80, n).astype(np.float32)
    for path in ((times, points), standing_paths(points[:, 0])):
        dense = np.asarray(SWEPT(*path, radius))
        matrix, degree = as_matrix(LISTS(*path, radius, 64), n)
        np.testing.assert_array_equal(matrix, dense)
        np.testing.assert_array_equal(degree, dense.sum(1))


def test_a_list_too_short_tells_the_true_degree():
    position = jnp.asarray(np.random.default_rng(0).uniform(0, 100, (60, 2)), jnp.float32)
    dense = np.asarray(disc(position, 40.0))
    matrix, degree = as_matrix(LISTS(*standing_paths(position), 40.0, 4), 60)
    np.testing.assert_array_equal(degree, dense.sum(1))
    np.testing.assert_array_equal(matrix.sum(1), np.minimum(degree, 4))
    assert (dense | ~matrix).all()
    matrix, _ = as_matrix(LISTS(*standing_paths(position), jnp.inf, 59), 60)
    np.testing.assert_array_equal(matrix, ~np.eye(60, dtype=bool))
    with pytest.raises(UserError, match="max_degree is 0; it must be at least 1"):
        swept_neighbours(*standing_paths(position), 1.0, 0)


def test_root_as_radius_in_single_precision():
    """A radius written as the root of a grid distance's square, sqrt(2) for the diagonal, reaches that distance."""
    assert DISC(jnp.ones((2, 2)), np.float32(0))[0, 1]
    for squared, (a, b) in sorted({a * a + b * b: (a, b) for a in range(35) for b in range(35)}.items())[1:]:
        position = jnp.array([(1, 1), (1 + a, 1 + b)], jnp.float32)
        assert DISC(position, np.float32(np.sqrt(squared)))[0, 1], squared
        assert not DISC(position, np.float32(np.sqrt(squared - 0.5)))[0, 1], squared


def test_fading_and_drawn_radii_at_their_ends():
    squared = jnp.array([[0.0, 25.0, 100.0, 400.0]])
    np.testing.assert_allclose(failure_probability(squared, jnp.float32(10), 0.1, 0.4), [[0.1, 0.2, 0.5, 0.5]])
    np.testing.assert_allclose(failure_probability(squared, jnp.inf, 0.1, 0.4), [[0.1] * 4])
    np.testing.assert_allclose(failure_probability(squared[:, :1], jnp.float32(0), 0.9, 0.4), [[0.9]])
    assert np.isinf(draw_radii(jax.random.key(0), jnp.inf, jnp.float32(1.0), 500)).all()


def test_the_longest_list_that_a_round_needed_is_told():
    """Also where only an earlier round needed more."""
    params = SpatialParams(20, radius=1.0, max_step=4.0)
    (states, _), (_, links) = (played(spatial(30, 6, max_neighbours=most), params, 4) for most in (4, 0))
    degrees = links.adjacency.sum(axis=2).max(axis=1)
    assert states.needed[1:].tolist() == (np.maximum.accumulate(degrees) + 1).tolist()
    assert states.needed[1] > 5
    assert degrees[1] < degrees[0]
