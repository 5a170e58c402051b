"""Leaves of a model that are frozen, and leaves that are personal."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import assert_trees_equal, toy_dataset, toy_hparams
from tiny import tiny_config

from mdfl_jax import Hparams, Schedule, UserError, simulate
from mdfl_jax.algorithms import ALGORITHMS, numbers_of
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import ignored_by
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.message_bits import total_bits
from mdfl_jax.core.metric import HOLDS, Metric
from mdfl_jax.core.trees import chosen_leaves, joined_leaves, leaf_paths
from mdfl_jax.models import make_model
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.study.prepare.task import build_task, load_dataset
from mdfl_jax.tasks.supervised import supervised

N, KEY = 5, jax.random.key(0)
INPUTS, UNITS, CLASSES = 16, 7, 3
FIRST, LAST = INPUTS * UNITS + UNITS, UNITS * CLASSES + CLASSES  # the numbers of the two layers


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


@pytest.mark.parametrize("batch_size", [0, 8])
def test_a_frozen_layer_is_the_same_for_all_clients_and_has_no_gradient(batch_size):
    model = make_model("mlp", CLASSES, widths=(UNITS,))
    frozen, whole = (
        supervised(toy_dataset(), model, N, "iid", batch_size, trainable=patterns) for patterns in ("Dense_1/*", "")
    )
    clients = jax.jit(frozen.partition)(frozen.data, toy_hparams().task, KEY)
    assert jax.tree.map(jnp.shape, clients.frozen)["Dense_0"] == {"kernel": (INPUTS, UNITS), "bias": (UNITS,)}
    params = jax.jit(frozen.init)(frozen.data, KEY)
    assert leaf_paths(params) == ["Dense_1/bias", "Dense_1/kernel"]
    own = jax.tree.map(lambda x: jnp.stack([x * (1 + i) for i in range(N)]), params)
    everywhere = jax.tree.map(lambda x: jnp.broadcast_to(x, (N, *x.shape)), clients.frozen)
    joined = joined_leaves(own, everywhere)
    plain_clients = jax.jit(whole.partition)(whole.data, toy_hparams().task, KEY)
    loss, found = jax.jit(frozen.gradient)(frozen.data, clients, own, KEY)
    plain_loss, plain = jax.jit(whole.gradient)(whole.data, plain_clients, joined, KEY)
    np.testing.assert_allclose(loss, plain_loss, rtol=1e-6)
    assert_trees_equal(found, chosen_leaves(plain, "Dense_1/*"), 1e-6)
    score, plain_score = (
        jax.jit(task.evaluate)(task.data, held, models)
        for task, held, models in ((frozen, clients, own), (whole, plain_clients, joined))
    )
    assert_trees_equal(score, plain_score, 1e-6)


@cache
def history(name, trainable="", shared="", rounds=2):
    """A run whose history has the models of all clients at the end."""
    algorithm, task = ALGORITHMS[name](Settings(shared=shared)), task_of(trainable)
    sizes = {"first": FIRST, "last": LAST}
    layers = [
        Metric(key, lambda at, k=k: _layer(at.models, f"Dense_{k}"), HOLDS, shape=("clients", sizes[key]))
        for k, key in enumerate(sizes)
        if not trainable or trainable.startswith(f"Dense_{k}")
    ]
    algorithm = algorithm._replace(metrics=(*algorithm.metrics, *layers))
    hparams = Hparams(toy_hparams().task, GraphParams(), numbers_of(name).typed())
    run = simulate(task, fixed_graph(N, "complete"), algorithm, Schedule(rounds, rounds))
    return jax.jit(run)(hparams, KEY)


def _layer(models, name):
    return jnp.concatenate([leaf.reshape(N, -1) for leaf in jax.tree.leaves(models[name])], axis=1)


def bits(found):
    return total_bits(found.bits)[-1]


def test_a_frozen_layer_is_not_sent():
    found = history("dpsgd", trainable="Dense_1/*")
    np.testing.assert_array_equal(bits(found), found.messages[-1] * 32 * LAST)
    assert found.accuracy[-1].mean() > found.accuracy[0].mean()


@pytest.mark.few(3)
@pytest.mark.parametrize("name", sorted(name for name in ALGORITHMS if "statistics" not in ignored_by(name)))
def test_a_personal_layer_is_not_exchanged(name):
    if name == "local_only":
        return
    found, alone = history(name, shared="Dense_0/*", rounds=1), history("local_only", rounds=1)
    whole = history(name, rounds=1)
    if name in ("dpsgd", "allreduce", "epidemic", "epidemic_oracle", "sgp"):  # one step of SGD, as alone
        np.testing.assert_allclose(found.last[-1], alone.last[-1], rtol=1e-4, atol=1e-6)
    if name != "pame":  # it sends some of the coordinates
        np.testing.assert_allclose(found.first[-1], whole.first[-1], rtol=1e-4, atol=1e-6)
    assert np.ptp(found.last[-1], axis=0).max() > 1e-3
    assert bits(found).sum() < 0.9 * bits(whole).sum() or not found.messages.any()
    if name == "dpsgd":
        np.testing.assert_array_equal(bits(found), found.messages[-1] * 32 * FIRST)


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
