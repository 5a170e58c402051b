"""What the items that explain a difference measure, on made-up numbers."""

import numpy as np

from benchmarks.papers.explained_pame import TOLERANCE, first_rest, unrest
from mdfl_jax.core.stopping import initial_stop_state, update_stop_state


def test_the_rest_of_an_objective_is_where_the_stop_rule_ends_a_run():
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(20, 60)) * TOLERANCE * np.linspace(8, 0.2, 60)
    objective = np.concatenate([np.full((20, 1), 5.0), 1 + steps], axis=1).astype(np.float32)
    found = first_rest(unrest(objective.astype(np.float64)))
    for run, expected in zip(objective, found):
        state, rounds = initial_stop_state(np.float32), np.nan
        for number, value in enumerate(run[1:], start=1):
            state = update_stop_state(state, value, TOLERANCE)
            if state.stopped:
                rounds = number
                break
        np.testing.assert_equal(rounds, expected)
    assert len(set(found)) > 5


def test_an_objective_that_never_rests_has_no_round():
    np.testing.assert_array_equal(first_rest(unrest(np.tile([1.0, 2.0], (2, 10)))), np.full(2, np.nan))
    np.testing.assert_allclose(unrest(np.array([[0.0, 1.0, 2.0, 2.0]])), [[np.sqrt(2 / 3), np.sqrt(2 / 9)]])
