"""Tests of my_name.py: python -m pytest test_my_name.py"""

import my_name
import numpy as np

import mdfl_jax


def losses(algorithm, **numbers):
    """Return the training losses of a small study, [evaluations, clients]; NaN before the first round."""
    config = my_name.get_config()
    config.sweep = config.baseline = ""
    config.seeds, config.rounds, config.eval_every = 1, 6, 2
    config.data.limit_train, config.data.limit_test, config.model.name = 60, 30, "linear"
    config.network.num_clients, config.network.num_mobile, config.network.grid_size = 5, 2, 4
    config.algorithm.name = algorithm
    for name, value in numbers.items():
        config.algorithm[name] = value
    return mdfl_jax.run(config).array("train_loss")[0]


def test_no_trust_is_local_training_and_full_trust_is_dpsgd():
    np.testing.assert_allclose(losses("my_name", trust=0.0), losses("local_only"), rtol=1e-5)
    np.testing.assert_allclose(losses("my_name", trust=1.0), losses("dpsgd"), rtol=1e-4)


def test_half_trust_is_neither():
    half = losses("my_name", trust=0.5)[-1]
    assert np.isfinite(half).any()
    for other in ("local_only", "dpsgd"):
        assert np.nanmax(np.abs(half - losses(other)[-1])) > 1e-4
