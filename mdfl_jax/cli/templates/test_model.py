"""Tests of my_name.py: python -m pytest test_my_name.py"""

import jax
import my_name
import numpy as np

import mdfl_jax
from mdfl_jax.models import make_model


def test_it_makes_outputs_of_samples():
    model = make_model("my_name", num_classes=10, features=5)
    samples = np.zeros((3, 8, 8, 1), np.float32)
    variables = model.init(jax.random.key(0), samples)
    assert model.apply(variables, samples).shape == (3, 10)
    assert {leaf.shape for leaf in jax.tree.leaves(variables)} == {(64, 5), (5,), (5, 10), (10,)}


def test_it_learns():
    config = my_name.get_config()
    config.sweep = ""
    config.seeds, config.rounds, config.eval_every = 1, 20, 10
    config.data.limit_train, config.data.limit_test, config.data.partition = 200, 100, "iid"
    config.network.num_clients, config.network.num_mobile, config.network.radius = 2, 0, float("inf")
    config.algorithm.lr = 0.2
    results = mdfl_jax.run(config)
    assert results.array("accuracy")[0, -1].mean() > 0.4  # ten classes: chance is 0.1
