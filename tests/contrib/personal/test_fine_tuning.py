"""Steps before an evaluation change what is evaluated of each client, and nothing else (with more: tests/reference)."""

import numpy as np
import pytest
from tiny import run_study, tiny_config

from mdfl_jax.study import make_study

ALONE = {"algorithm.name": "local_only", "algorithm.lr": 0.1}


def history(folder, **changes):
    run_study(make_study(tiny_config(**changes)), folder)
    with np.load(folder / "history.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("more", [{}, {"algorithm.name": "ditto"}])
def test_training_and_the_mean_model_are_as_without(tmp_path, more):
    plain = history(tmp_path / "plain", **more)
    tuned = history(tmp_path / "tuned", **more, **{"personal.evaluate_after": 2})
    assert plain.keys() == tuned.keys()
    same = [name for name in plain if np.array_equal(plain[name], tuned[name], equal_nan=True)]
    assert {*plain} - {*same} == {"0/accuracy", "0/loss"}
    assert (tuned["0/loss"] != plain["0/loss"]).all()


def test_steps_before_an_evaluation_are_steps_of_training_alone(tmp_path):
    """Clients that learn alone with full batches: after k rounds and two steps they are where k + 2 rounds lead."""
    every = {"rounds": 6, "eval_every": 1}
    plain = history(tmp_path / "plain", **ALONE, **every)
    steps = {"personal.evaluate_after": 2, "personal.evaluate_lr": 0.1}
    tuned = history(tmp_path / "tuned", **ALONE, **every, **steps)
    np.testing.assert_allclose(tuned["0/loss"][:, :-2], plain["0/loss"][:, 2:], rtol=1e-5)


def test_no_steps_are_the_run_without_the_field():
    one, other = (make_study(tiny_config(**changes)) for changes in ({}, {"personal.evaluate_after": 0}))
    assert one.names == other.names
    assert make_study(tiny_config(**{"personal.evaluate_after": 1})).names != one.names
