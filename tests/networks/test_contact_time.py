"""Contact durations against a float64 oracle and against time samples."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import costs as oracle

from mdfl_jax.networks.contact_time import contact_time, seconds_in_contact

TIME = jax.jit(contact_time)


def random_paths(seed, n=5, k=4, jumps=False):
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0, 1, (n, k)), axis=1)
    times[:, 0], times[:, -1] = 0, 1
    points = rng.uniform(0, 100, (n, k, 2))
    times[0, -2], points[0, -2] = 1, points[0, -1]  # one path is padded by repeating its end
    points[1] = points[1, 0]  # one client stands still
    if jumps:
        times[2, 1] = times[2, 2]
    return times.astype(np.float32), points.astype(np.float32)


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
    sampled = oracle.sampled_contact(times, points, radius, samples) * ~np.eye(5, dtype=bool)
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


@pytest.mark.parametrize("seconds", [0.5, 30.0])
def test_a_contact_at_the_beginning_of_a_round_lasts_for_the_whole_round(seconds):
    contact = np.array([[0, 1], [1, 0]], bool)
    np.testing.assert_array_equal(seconds_in_contact(contact, None, np.ones(2), seconds), contact * np.float32(seconds))
