"""Contact in the disc and along paths, its duration, and neighbour lists: loops, samples of time and float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import costs as oracle
from oracles import grid_world, plane_world

from mdfl_jax.core.errors import UserError
from mdfl_jax.networks.contact import (
    at_rest,
    closest_squared,
    contact_time,
    disc,
    swept,
    swept_neighbours,
)

JIT_SWEPT = jax.jit(swept)
JIT_CLOSEST = jax.jit(closest_squared)
JIT_DISC = jax.jit(disc)
JIT_LISTS = jax.jit(swept_neighbours, static_argnums=3)


def random_paths(seed, n=6, k=4, size=100.0, jumps=False):
    """Paths of k points with padding, repeated times and, where asked for, jumps."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0, 1, (n, k)), axis=1)
    times[:, 0], times[:, -1] = 0, 1
    points = rng.uniform(0, size, (n, k, 2))
    for i in range(0, n, 2):  # padded by repeating the end
        times[i, -2], points[i, -2] = 1, points[i, -1]
    points[1 % n] = points[1 % n, 0]  # one client stands still
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


def test_two_that_pass_between_samples_meet_and_so_do_two_that_touch():
    """They meet for a ten-thousandth of the round; a hundred samples see nothing."""
    times = np.array([[0, 1], [0, 1]], np.float32)
    points = np.array([[[0, 0], [10_000, 0]], [[10_007, 0.5], [3, 0.5]]], np.float32)
    assert plane_world.sampled_distance(times, points, 100)[0, 1] > 20
    touching = np.array([[[0, 0], [10, 0]], [[10, 3], [0, 3]]], np.float32)
    for path, near, far in ((points, 0.6, 0.4), (touching, 3.0, 2.999)):
        assert JIT_SWEPT(times, path, near)[0, 1]
        assert not JIT_SWEPT(times, path, far)[0, 1]


def test_clients_that_stand_still_meet_as_in_the_disc():
    position = np.random.default_rng(0).integers(0, 5, (20, 2)).astype(np.float32)
    times, points = at_rest(position)
    for radius in (0.0, 2.0, float(np.sqrt(5)), np.inf):
        expected = grid_world.disc(position, radius)
        np.testing.assert_array_equal(JIT_SWEPT(times, points, radius), expected)
        np.testing.assert_array_equal(JIT_DISC(position, radius), expected)


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
    """Sizes with a part of a block, and several blocks and chunks, in a strip where many meet across their borders."""
    rng = np.random.default_rng(n)
    times, points = random_paths(n, n=n, size=60.0)
    points = points + rng.uniform(0, (size, size / 10), (n, 1, 2)).astype(np.float32)
    radius = rng.uniform(10, 80, n).astype(np.float32)
    dense = np.asarray(JIT_SWEPT(times, points, radius))
    matrix, degree = as_matrix(JIT_LISTS(times, points, radius, 64), n)
    np.testing.assert_array_equal(matrix, dense)
    np.testing.assert_array_equal(degree, dense.sum(1))
    dense = np.asarray(disc(points[:, 0], radius))
    matrix, degree = as_matrix(JIT_LISTS(*at_rest(points[:, 0]), radius, 64), n)
    np.testing.assert_array_equal(matrix, dense)


def test_a_list_too_short_tells_the_true_degree():
    position = jnp.asarray(np.random.default_rng(0).uniform(0, 100, (60, 2)), jnp.float32)
    dense = np.asarray(disc(position, 40.0))
    assert dense.sum(1).max() > 4
    matrix, degree = as_matrix(JIT_LISTS(*at_rest(position), 40.0, 4), 60)
    np.testing.assert_array_equal(degree, dense.sum(1))
    np.testing.assert_array_equal(matrix.sum(1), np.minimum(degree, 4))
    assert (dense | ~matrix).all()
    matrix, _ = as_matrix(JIT_LISTS(*at_rest(position), jnp.inf, 59), 60)
    np.testing.assert_array_equal(matrix, ~np.eye(60, dtype=bool))
    with pytest.raises(UserError, match="max_degree is 0; it must be at least 1"):
        swept_neighbours(*at_rest(position), 1.0, 0)


@pytest.mark.parametrize("size", [18, pytest.param(35, marks=pytest.mark.long)])
def test_whole_grid_at_integer_radii(size):
    """Every pair of a G x G grid is judged as in float64, at each radius from 0 to beyond the diagonal."""
    grid = grid_world.square_grid(size)
    squared = ((grid[:, None, :] - grid[None, :, :]) ** 2).sum(-1)
    others = ~np.eye(len(grid), dtype=bool)
    for radius in range(int(size * 1.5) + 1):
        expected = (np.sqrt(squared.astype(np.float64)) <= radius) & others
        got = np.asarray(JIT_DISC(jnp.asarray(grid, jnp.float32), float(radius)))
        np.testing.assert_array_equal(got, expected, err_msg=f"radius {radius}")


def test_root_as_radius_in_single_precision():
    """A radius written as the root of a grid distance's square, sqrt(2) for the diagonal, reaches that distance."""
    corner, missed, overreached = (1, 1), [], []
    for squared, (a, b) in sorted({a * a + b * b: (a, b) for a in range(35) for b in range(35)}.items())[1:]:
        position = jnp.array([corner, (1 + a, 1 + b)], jnp.float32)
        if not JIT_DISC(position, np.float32(np.sqrt(squared)))[0, 1]:
            missed.append(squared)
        if JIT_DISC(position, np.float32(np.sqrt(squared - 0.5)))[0, 1]:
            overreached.append(squared)
    assert missed == []
    assert overreached == []


TIME = jax.jit(contact_time)


@given(st.integers(0, 10**6), st.booleans(), st.floats(1, 120))
@settings(deadline=None, max_examples=25, derandomize=True)
def test_durations_are_those_of_both_oracles(seed, jumps, radius):
    times, points = random_paths(seed, jumps=jumps)
    found = np.asarray(TIME(times, points, np.float32(radius)))
    np.testing.assert_array_equal(found, found.T)
    assert (np.diag(found) == 0).all()
    assert (found >= 0).all()
    assert (found <= 1 + 1e-6).all()
    np.testing.assert_allclose(found, oracle.exact_contact(times, points, radius), atol=2e-3)
    samples = 400
    sampled = oracle.sampled_contact(times, points, radius, samples) * ~np.eye(6, dtype=bool)
    assert np.abs(found - sampled).max() <= 12 / samples  # at most a sample for each crossing of the circle


def test_more_clients_than_a_block_of_rows_and_radii_of_their_own():
    """130 clients need three blocks of rows; the smaller of two radii counts."""
    rng = np.random.default_rng(4)
    times = np.broadcast_to(np.array([0, 1], np.float32), (130, 2))
    points = rng.uniform(0, 60, (130, 2, 2)).astype(np.float32)
    radius = rng.uniform(1, 30, 130).astype(np.float32)
    found = np.asarray(TIME(times, points, radius))
    some = [0, 1, 63, 64, 100, 128, 129]
    for i in some:
        for j in some:
            pair = oracle.exact_contact(times[[i, j]], points[[i, j]], min(radius[i], radius[j]))[0, 1] if i != j else 0
            assert abs(found[i, j] - pair) < 1e-3


def test_known_durations():
    """Two that approach at the relative speed 20 pass a circle of radius 3 at the distance 0, 1.8 and 3."""
    times = np.array([[0, 1], [0, 1]], np.float32)
    for distance, expected in ((0.0, 6 / 20), (1.8, 4.8 / 20), (3.01, 0.0)):
        points = np.array([[[0, 0], [10, 0]], [[10, distance], [0, distance]]], np.float32)
        np.testing.assert_allclose(TIME(times, points, 3.0)[0, 1], expected, rtol=1e-5, atol=1e-6)
    assert TIME(times, points, np.inf)[0, 1] == 1  # all clients are in contact all the time
    still = np.array([[[0, 0], [0, 0]], [[3, 0], [3, 0]]], np.float32)
    assert TIME(times, still, 3.0)[0, 1] == 1
    assert TIME(times, still, 2.9)[0, 1] == 0
    together = still + np.array([[0, 0], [1e4, 5.0]], np.float32)  # fast, but side by side
    assert TIME(times, together, 3.0)[0, 1] == 1
