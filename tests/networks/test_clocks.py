"""Clocks: works of one slot are rounds. The reference has all other works."""

import jax
import numpy as np
import pytest
from tables import with_fields
from tiny import tiny_config

from mdfl_jax.config.resolve import resolve
from mdfl_jax.mobility.registry import movement_of
from mdfl_jax.study.prepare.task import build_task, load_dataset
from mdfl_jax.study.study import build_simulation, hparams_of

CLOCKS = {"motion.dt": "2", "cost.seconds_per_sample": "0.25", "algorithm.batch_size": "8", "rounds": "6"}
CLOCKS |= {"eval_every": "3", "seeds": "1", "network.radius": "3"}


def run_of(**fields):
    experiment = resolve(with_fields(tiny_config(), {**CLOCKS, **fields}))
    rules = [movement_of(experiment)]
    simulation = build_simulation(experiment, build_task(experiment, load_dataset(experiment.data)), rules)
    return jax.device_get(jax.jit(simulation.run)(hparams_of(experiment, rules), jax.random.key(2)))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["pame", "dpsgd"])
def test_with_works_of_one_slot_rounds_are_what_they_are_without_clocks(name):
    """Bit for bit, with seconds that are those of the slots; the mean of losses alone is divided by a traced number."""
    momentum = {"algorithm.momentum": "0.5"} if name == "dpsgd" else {}
    fields = {"algorithm.name": name, **momentum}
    plain, clocked = run_of(**fields), run_of(**fields, **{"clock.joins": "at_once"})
    assert {*clocked} - {*plain} == {"works"} | ({"heard"} if name == "dpsgd" else set())
    for metric in plain:
        rtol = 1e-6 if metric == "train_loss" else 0
        np.testing.assert_allclose(plain[metric], clocked[metric], rtol=rtol, err_msg=metric)
    np.testing.assert_array_equal(clocked["works"][1:], 3)
    np.testing.assert_allclose(clocked["seconds"], [0, 6, 12])
