"""Leaves of a model that are frozen, and leaves that are personal."""

import jax
import jax.numpy as jnp
import pytest
from small import assert_trees_equal, toy_dataset, toy_hparams
from tiny import tiny_config

from mdfl_jax import UserError
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.trees import chosen_leaves, joined_leaves, leaf_paths
from mdfl_jax.models import make_model
from mdfl_jax.study.prepare.task import build_task, load_dataset
from mdfl_jax.tasks.supervised import supervised

N, KEY = 5, jax.random.key(0)
UNITS, CLASSES = 7, 3


def task_of(trainable=""):
    model = make_model("mlp", CLASSES, widths=(UNITS,))
    return supervised(toy_dataset(), model, N, "iid", trainable=trainable)


def test_leaves_are_chosen_by_their_paths():
    tree = {"a": {"b": 1, "c": [2, 3]}, "d": 4}
    assert leaf_paths(tree) == ["a/b", "a/c/0", "a/c/1", "d"]
    some, rest = (chosen_leaves(tree, "a/c/*, d", inside=inside) for inside in (True, False))
    assert some == {"a": {"b": None, "c": [2, 3]}, "d": 4}
    assert rest == {"a": {"b": 1, "c": [None, None]}, "d": None}
    assert joined_leaves(some, rest) == tree
    assert chosen_leaves(tree, "") == tree
    with pytest.raises(UserError, match=r"model.shared is 'x'; 'x' matches none of the leaves a/b, a/c/0, a/c/1, d"):
        chosen_leaves(tree, "x", "model.shared")


def test_settings_choose_the_leaves_and_errors_are_one_line():
    config = tiny_config(**{"model.name": "mlp", "model.trainable": "Dense_1/*, Dense_2/*"})
    experiment = resolve(config)
    task = build_task(experiment, load_dataset(experiment.data))
    model = jax.eval_shape(task.init, task.data, jax.random.key(0))
    assert leaf_paths(model) == [f"Dense_{k}/{leaf}" for k in (1, 2) for leaf in ("bias", "kernel")]
    config.model.trainable = "Dense_9/*"
    with pytest.raises(UserError, match=r"model.trainable is 'Dense_9/\*'; 'Dense_9/\*' matches none of the leaves"):
        build_task(resolve(config), load_dataset(experiment.data))
    with pytest.raises(UserError, match=r"model.shared is 'x'; it must be empty: choco exchanges whole models"):
        resolve(tiny_config(**{"model.shared": "x", "algorithm.name": "choco"}))
    with pytest.raises(UserError, match=r"model.trainable is 'w'; it must be empty with data.name synthetic:linear"):
        resolve(tiny_config(**{"model.trainable": "w", "data.name": "synthetic:linear"}))


def test_frozen_leaves_are_those_of_given_weights():
    model = make_model("mlp", CLASSES, widths=(UNITS,))
    given = jax.tree.map(lambda x: jnp.full_like(x, 0.5), task_of().init(task_of().data, KEY))
    task = supervised(toy_dataset(), model, N, "iid", trainable="Dense_1/*", pretrained={"params": given})
    clients = task.partition(task.data, toy_hparams().task, KEY)
    assert_trees_equal(clients.frozen, chosen_leaves(given, "Dense_0/*"))
    assert_trees_equal(task.init(task.data, KEY), chosen_leaves(given, "Dense_1/*"))
