"""Tests of my_name.py: python -m pytest test_my_name.py"""

import my_name  # noqa: F401  (registers the data set)
import numpy as np

from mdfl_jax.data.sources import load


def test_images_and_labels_fit_together():
    data = load("my_name")
    assert data.x_train.shape == (1000, 8, 8, 1)
    assert data.num_classes == 4
    means = np.stack([data.x_train[data.y_train == label].mean(axis=0) for label in range(4)])
    distance = np.square(data.x_test[:, None] - means).sum(axis=(2, 3, 4))  # to the mean image of each class
    assert (distance.argmin(axis=1) == data.y_test).mean() > 0.99


def test_it_is_the_same_each_time():
    np.testing.assert_array_equal(load("my_name").x_train, load("my_name").x_train)
