"""Tests of my_name.py: python -m pytest test_my_name.py"""

from types import SimpleNamespace

import my_name
import numpy as np


def test_it_is_the_norm_of_all_parameters_of_a_client():
    rng = np.random.default_rng(0)
    models = {"kernel": rng.normal(size=(3, 4, 2)), "bias": rng.normal(size=(3, 2))}  # 3 clients
    found = my_name.my_name.measure(SimpleNamespace(models=models))
    expected = [np.linalg.norm(np.concatenate([leaf[i].ravel() for leaf in models.values()])) for i in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
