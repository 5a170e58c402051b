"""Clocks: whose work ends in a slot against a queue of events, what a slot costs, and works of one slot as rounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import assert_trees_equal, toy_dataset
from tables import with_fields
from tiny import tiny_config

from mdfl_jax.config.resolve import resolve
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.mobility.registry import movement_of
from mdfl_jax.models import make_model
from mdfl_jax.study.prepare.task import build_task, load_dataset
from mdfl_jax.study.study import build_simulation, hparams_of
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.gradients import Tiling

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


@pytest.mark.parametrize("batch_size", [0, 5])
def test_gradients_of_some_clients_are_rows_of_those_of_all_and_of_no_others(batch_size):
    """Also where runs with different clients are mapped together: the loop is then that of the run with the most."""
    by_four = Tiling(block_size=5, tile=20)
    task = classification(toy_dataset(), make_model("linear", 3), 9, "iid", batch_size=batch_size, tiling=by_four)
    clients = task.partition(task.data, PartitionNumbers(), jax.random.key(0))
    params = jax.vmap(lambda k: task.init(task.data, k))(jax.random.split(jax.random.key(1), 9))
    of = lambda only: task.gradient(task.data, clients, params, jax.random.key(2), only=only)  # noqa: E731
    some = jnp.asarray(np.random.default_rng(0).random((4, 9)) < np.array([[0], [0.3], [0.6], [1]]))
    whole = jax.jit(lambda: task.gradient(task.data, clients, params, jax.random.key(2)))()
    found = jax.jit(jax.vmap(of))(some)
    for k in range(4):
        rows = lambda leaf, k=k: jnp.where(some[k].reshape(-1, *[1] * (leaf.ndim - 1)), leaf, 0)  # noqa: E731
        assert_trees_equal(jax.tree.map(lambda leaf, k=k: leaf[k], found), jax.tree.map(rows, whole), 1e-6)
