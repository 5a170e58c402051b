"""`networks.contact.swept` and the neighbour lists against time-sampling and float64 oracles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import plane_world

from mdfl_jax.core.errors import UserError
from mdfl_jax.networks.contact import closest_squared, disc, swept
from mdfl_jax.networks.neighbours import disc_neighbours, swept_neighbours

JIT_SWEPT = jax.jit(swept)
JIT_CLOSEST = jax.jit(closest_squared)
JIT_DISC = jax.jit(disc)
JIT_LISTS = jax.jit(swept_neighbours, static_argnums=3), jax.jit(disc_neighbours, static_argnums=2)


def random_paths(seed, n=6, k=4, size=100.0, jumps=False):
    """Paths of k points with padding, repeated times and, where asked for, jumps."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0, 1, (n, k)), axis=1)
    times[:, 0], times[:, -1] = 0, 1
    points = rng.uniform(0, size, (n, k, 2))
    for i in range(0, n, 2):  # padded by repeating the end
        times[i, -2], points[i, -2] = 1, points[i, -1]
    if jumps:
        times[1::2, 1] = times[1::2, 2]
    return times.astype(np.float32), points.astype(np.float32)


@given(st.integers(0, 10**6), st.booleans())
@settings(deadline=None, max_examples=30, derandomize=True)
def test_distance_is_that_of_both_oracles(seed, jumps):
    times, points = random_paths(seed, jumps=jumps)
    got = np.sqrt(np.asarray(JIT_CLOSEST(times, points)))
    np.testing.assert_array_equal(got, got.T)
    off = ~np.eye(len(got), dtype=bool)
    np.testing.assert_allclose(got[off], plane_world.exact_distance(times, points)[off], rtol=1e-4, atol=1e-3)
    sampled, samples = plane_world.sampled_distance(times, points, 201), 201
    steps = np.diff(times, axis=1)
    lengths = np.linalg.norm(np.diff(points, axis=1), axis=-1)
    speed = np.where(steps > 0, lengths / np.where(steps > 0, steps, 1), 0).max(1)
    error = np.minimum((speed[:, None] + speed[None]) / (samples - 1), 1e9)
    assert (got <= sampled + 1e-3)[off].all()
    if not jumps:
        assert (got >= sampled - error - 1e-3)[off].all()


def test_two_that_pass_between_samples_meet():
    """They meet for a ten-thousandth of the round; a hundred samples see nothing."""
    times = np.array([[0, 1], [0, 1]], np.float32)
    points = np.array([[[0, 0], [10_000, 0]], [[10_007, 0.5], [3, 0.5]]], np.float32)
    assert plane_world.sampled_distance(times, points, 100)[0, 1] > 20
    assert JIT_SWEPT(times, points, 0.6)[0, 1]
    assert not JIT_SWEPT(times, points, 0.4)[0, 1]


def test_the_same_place_at_another_time_is_no_contact():
    """Paths that cross, but half a round apart."""
    times = np.array([[0, 0.4, 1], [0, 0.6, 1]], np.float32)
    points = np.array([[[0, 0], [100, 0], [100, 0]], [[50, -90], [50, -90], [50, 10]]], np.float32)
    assert not JIT_SWEPT(times, points, 20.0)[0, 1]
    together = points.copy()
    together[1] = [[50, -50], [50, 50], [50, 50]]
    times[1] = [0, 0.4, 1]
    assert JIT_SWEPT(times, together, 1.0)[0, 1]


def test_touching_at_exactly_the_radius_is_contact():
    times = np.array([[0, 1], [0, 1]], np.float32)
    points = np.array([[[0, 0], [10, 0]], [[10, 3], [0, 3]]], np.float32)
    assert JIT_SWEPT(times, points, 3.0)[0, 1]
    assert not JIT_SWEPT(times, points, 2.999)[0, 1]


def test_repeated_times_and_padding_change_nothing():
    times, points = random_paths(3)
    plain = np.asarray(JIT_CLOSEST(times, points))
    padded_times = np.concatenate([times, np.ones((6, 3), np.float32)], axis=1)
    padded_points = np.concatenate([points, np.repeat(points[:, -1:], 3, axis=1)], axis=1)
    padded = np.asarray(JIT_CLOSEST(padded_times, padded_points))
    np.testing.assert_array_equal(padded, plain)
    assert np.isfinite(padded).all()
    twice = np.asarray(JIT_CLOSEST(np.repeat(times, 2, axis=1), np.repeat(points, 2, axis=1)))
    np.testing.assert_allclose(twice, plain, rtol=1e-5, atol=1e-4)


def test_a_jump_passes_nobody_on_its_way():
    times = np.array([[0, 0.5, 0.5, 1], [0, 1, 1, 1]], np.float32)
    points = np.array([[[0, 0], [10, 0], [90, 0], [100, 0]], [[50, 0]] * 4], np.float32)
    assert np.sqrt(JIT_CLOSEST(times, points)[0, 1]) == 40


@pytest.mark.parametrize("k", [1, 2, 5])
def test_clients_that_stand_still_meet_as_in_the_disc(k):
    position = np.random.default_rng(0).integers(0, 12, (20, 2)).astype(np.float32)
    times = np.broadcast_to(np.linspace(0, 1, k, dtype=np.float32), (20, k))
    points = np.repeat(position[:, None], k, axis=1)
    for radius in (0.0, 2.0, float(np.sqrt(5)), np.inf):
        np.testing.assert_array_equal(JIT_SWEPT(times, points, radius), JIT_DISC(position, radius))


def test_a_radius_a_client_links_where_both_hear():
    times, points = random_paths(5, n=8)
    radius = np.random.default_rng(1).uniform(5, 60, 8).astype(np.float32)
    expected = np.asarray(JIT_CLOSEST(times, points)) <= np.minimum.outer(radius, radius) ** 2
    got = np.asarray(JIT_SWEPT(times, points, radius))
    np.testing.assert_array_equal(got, expected & ~np.eye(8, dtype=bool))
    np.testing.assert_array_equal(got, got.T)
    position = points[:, 0]
    far = np.linalg.norm(position[:, None] - position[None], axis=-1)
    expected = (far <= np.minimum.outer(radius, radius)) & ~np.eye(8, dtype=bool)
    np.testing.assert_array_equal(disc(position, radius), expected)


def as_matrix(lists, n):
    """The adjacency that neighbour lists say; entries that are absent are the client itself."""
    ids, present, degree = map(np.asarray, lists)
    assert ids.dtype == np.int32
    assert (np.sort(ids[present].reshape(-1)) >= 0).all()
    assert (ids[~present] == np.broadcast_to(np.arange(n)[:, None], ids.shape)[~present]).all()
    matrix = np.zeros((n, n), bool)
    rows, slots = np.nonzero(present)
    matrix[rows, ids[rows, slots]] = True
    assert matrix.sum() == present.sum()  # none twice
    return matrix, degree


@pytest.mark.long
@pytest.mark.parametrize(("n", "size"), [(1, 100.0), (70, 500.0), (700, 3000.0)])
def test_neighbour_lists_say_the_same(n, size):
    """Sizes with a part of a block, and several blocks and chunks."""
    rng = np.random.default_rng(n)
    times, points = random_paths(n, n=n, size=60.0)
    points = points + rng.uniform(0, size, (n, 1, 2)).astype(np.float32)
    radius = rng.uniform(10, 80, n).astype(np.float32)
    dense = np.asarray(JIT_SWEPT(times, points, radius))
    matrix, degree = as_matrix(JIT_LISTS[0](times, points, radius, 64), n)
    np.testing.assert_array_equal(matrix, dense)
    np.testing.assert_array_equal(degree, dense.sum(1))
    dense = np.asarray(disc(points[:, 0], radius))
    matrix, degree = as_matrix(JIT_LISTS[1](points[:, 0], radius, 64), n)
    np.testing.assert_array_equal(matrix, dense)


def test_a_list_too_short_tells_the_true_degree():
    position = jnp.asarray(np.random.default_rng(0).uniform(0, 100, (60, 2)), jnp.float32)
    dense = np.asarray(disc(position, 40.0))
    assert dense.sum(1).max() > 4
    matrix, degree = as_matrix(JIT_LISTS[1](position, 40.0, 4), 60)
    np.testing.assert_array_equal(degree, dense.sum(1))
    np.testing.assert_array_equal(matrix.sum(1), np.minimum(degree, 4))
    assert (dense | ~matrix).all()
    matrix, _ = as_matrix(JIT_LISTS[1](position, jnp.inf, 59), 60)
    np.testing.assert_array_equal(matrix, ~np.eye(60, dtype=bool))
    with pytest.raises(UserError, match="max_degree is 0; it must be at least 1"):
        disc_neighbours(position, 1.0, 0)
