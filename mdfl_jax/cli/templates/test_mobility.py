"""Tests of my_name.py: python -m pytest test_my_name.py"""

import my_name
import numpy as np

import mdfl_jax


def steps_of(**numbers):
    """Return how far each client of a small study, 3 of them mobile, moves in each round, [rounds, clients]."""
    config = my_name.get_config()
    config.sweep = config.baseline = ""
    config.seeds, config.rounds, config.eval_every = 1, 20, 20
    config.data.limit_train, config.data.limit_test, config.model.name = 60, 30, "linear"
    config.network.num_clients, config.network.num_mobile, config.network.grid_size = 6, 3, 9
    config.network.mobility, config.network.max_step = "my_name", 2.0
    for name, value in numbers.items():
        config.motion[name] = value
    position = mdfl_jax.run(config).array("position")[0]  # [rounds + 1, clients, 2]
    return np.linalg.norm(np.diff(position, axis=0), axis=-1)


def test_nobody_moves_farther_than_allowed_and_only_mobile_clients_move():
    steps = steps_of()
    assert steps.max() <= 2.0
    assert steps[:, :3].any(axis=0).all()
    assert not steps[:, 3:].any()


def test_the_patience_changes_the_movement():
    assert (steps_of(patience=0.0) != steps_of(patience=1.0)).any()
