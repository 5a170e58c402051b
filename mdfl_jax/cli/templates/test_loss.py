"""Tests of my_name.py: python -m pytest test_my_name.py"""

import my_name
import numpy as np

from mdfl_jax.tasks.losses import LOSSES

OUTPUTS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
LABELS = np.array([0, 2, 1, 1, 0])


def losses(smoothing):
    return np.asarray(my_name.my_name(my_name.MyNameNumbers(smoothing=smoothing), OUTPUTS, LABELS))


def test_without_smoothing_it_is_the_cross_entropy():
    np.testing.assert_allclose(losses(0.0), LOSSES["cross_entropy"].losses(None, OUTPUTS, LABELS), rtol=1e-5)


def test_it_is_the_cross_entropy_with_smoothed_labels():
    log = OUTPUTS - np.log(np.exp(OUTPUTS).sum(axis=1, keepdims=True))
    smoothed = 0.7 * np.eye(3)[LABELS] + 0.3 / 3
    np.testing.assert_allclose(losses(0.3), -(smoothed * log).sum(axis=1), rtol=1e-5)
