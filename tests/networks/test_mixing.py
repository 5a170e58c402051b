"""The automatic ratio of speed-aware weights at its ends; the reference has the rules."""

import jax
import numpy as np

from mdfl_jax.networks.mixing import automatic_ratio

RATIO = jax.jit(automatic_ratio)


def test_automatic_ratio_by_hand_and_at_its_ends():
    """A receiver at rest and one fast neighbour; c = pi R / 2, q = 50, v = (sqrt 50, sqrt 150)."""
    pair = np.array([[0, 1], [1, 0]], bool)
    slope = (np.sqrt(150) - np.sqrt(50)) / 10
    expected = slope * 5 / (np.pi * 4 / 2 + (np.sqrt(150) + np.sqrt(50)) / 2)
    np.testing.assert_allclose(RATIO(pair, np.array([0.0, 10.0]), 4.0), expected, rtol=1e-5)
    for speed, radius in (([0.0, 10.0], np.inf), ([7.0, 7.0], 4.0), ([0.0, 0.0], 0.0)):
        np.testing.assert_array_equal(RATIO(pair, np.array(speed), radius), 0)
    few, full = np.array([1, 1, 1, 30.0]), ~np.eye(4, dtype=bool)
    alike = float(RATIO(full, few, 10.0)[0])
    own = np.asarray(RATIO(full, few, np.array([10.0, 20.0, 5.0, 10.0])))  # a radius a receiver
    np.testing.assert_allclose(own[[0, 3]], alike, rtol=1e-5)
    assert own[1] < alike < own[2]
