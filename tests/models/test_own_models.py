"""Models of a user's own in linen, nnx and functions: trained as their library does it, their draws, their errors."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from small import assert_trees_equal, told, toy_dataset, toy_hparams
from tiny import tiny_config

from mdfl_jax.core.own_files import errors_in_one_line
from mdfl_jax.core.rng import stream
from mdfl_jax.core.sharding import client_mesh
from mdfl_jax.models import MODELS, SamplesLast, SampleSpec, adapt, client_model
from mdfl_jax.models.adapters import draws, variables_of
from mdfl_jax.study import make_study
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.gradients import Tiling
from mdfl_jax.tasks.supervised import drawn_batch, seed_of_block

N, BATCH = 4, 6
SAMPLE = SampleSpec((4, 4, 1))


def flat(x):
    return x.reshape(x.shape[0], -1)


def task_of(model, devices=1, **settings):
    mesh = client_mesh(jax.devices()[:devices])
    return classification(toy_dataset(), model, N, "iid", **{"batch_size": BATCH, "mesh": mesh} | settings)


def step(task, key=1, apart=0.01):
    """((loss [N], gradients) of models that differ by client, as later in a run; those models; the clients)."""
    clients = task.partition(task.data, toy_hparams().task, jax.random.key(0))
    one = task.init(task.data, jax.random.key(2))
    models = jax.tree.map(lambda p: jnp.stack([p + apart * i * jnp.ones_like(p) for i in range(N)]), one)
    gradient = jax.jit(lambda p: task.gradient(task.data, clients, p, jax.random.key(key)))
    return gradient(models), models, clients


def batch(task, clients, i):
    """Client i's normalised images, labels and key of random draws in a step."""
    key = jax.random.key(1)
    sample = drawn_batch(key, clients.held, BATCH).sample[i]
    images = (task.data.x_train[sample].astype(jnp.float32) - task.data.mean) / task.data.std
    return images, task.data.y_train[sample], jax.random.key(seed_of_block(stream(key, "dropout"), i, 0))


def mean_loss(outputs, labels):
    return optax.softmax_cross_entropy_with_integer_labels(outputs, labels).mean()


class Net(nn.Module):
    """As users write them: flax's own layers, told by ``train``."""

    rate: float = 0.0

    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(nn.Conv(4, (3, 3))(x))
        return nn.Dense(3)(nn.Dropout(self.rate, deterministic=not train)(flat(nn.relu(x))))


class Fielded(nn.Module):
    """Told by a field, as some libraries write it."""

    train: bool = True

    def setup(self):
        self.norm = nn.BatchNorm(use_running_average=not self.train, momentum=0.9)
        self.drop = nn.Dropout(0.5, deterministic=not self.train)
        self.out = nn.Dense(3)

    def __call__(self, x):
        return self.out(self.drop(self.norm(flat(x))))


class Unknown(nn.Module):
    """Has an argument of an unknown name."""

    rate: float = 0.5

    @nn.compact
    def __call__(self, x, is_train=False):
        return nn.Dense(3)(nn.Dropout(self.rate, deterministic=not is_train)(flat(x)))


class Last(nn.Module):
    """With the samples last, [channels, H, W, B]; draws where it is given a stream."""

    rate: float = 0.5

    @nn.compact
    def __call__(self, x):
        drop = nn.Dropout(self.rate, deterministic=not self.has_rng("dropout"))
        return nn.Dense(3)(drop(x.reshape(-1, x.shape[-1]).T))


class Held(nn.Module):
    """A plain module around another, as `Adapted` is: linen's draws depend on the names of modules."""

    inner: nn.Module

    @nn.compact
    def __call__(self, x, **told):
        return self.inner(x, **told)


class NNXNet(nnx.Module):
    """As users write them, with two layers of dropout that must not draw alike."""

    def __init__(self, rngs, rate=0.0, norm=True):
        self.conv = nnx.Conv(1, 4, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(4, momentum=0.9, rngs=rngs) if norm else None
        self.drops = nnx.List([nnx.Dropout(rate, rngs=rngs) for _ in range(2)])
        self.out = nnx.Linear(64, 3, rngs=rngs)

    def __call__(self, x):
        x = self.conv(x)
        x = flat(nnx.relu(self.norm(x) if self.norm else x))
        for drop in self.drops:
            x = drop(x)
        return self.out(x)


def dropping_nnx(rngs):
    return NNXNet(rngs, rate=0.5)


def init(key, x):
    """A tree that is no dictionary."""
    return [(0.3 * jax.random.normal(key, (x[0].size, 3)), jnp.zeros(3))]


def plain(params, x):
    ((kernel, bias),) = params
    return flat(x) @ kernel + bias


def dropping(params, x, *, key=None):
    kept = 1.0 if key is None else jax.random.bernoulli(key, 0.5, x.shape) / 0.5
    return plain(params, x * kept)


def as_haiku(params, rng, x, is_training):
    return dropping(params, x, key=rng if is_training else None)


def with_flag(params, x, deterministic=True):
    return plain(params, x) if deterministic else 2 * plain(params, x)


class Transformed(NamedTuple):
    init: Any
    apply: Any


def by_linen(module, **told):
    """A training step's forward pass by linen itself, from the variables of a client model."""

    def forward(variables, images, key):
        return module.apply(variables, images, **told, mutable=["batch_stats"], rngs={"dropout": key})

    return forward


def by_function(forward):
    return lambda variables, images, key: (forward(variables["params"], images, key), {})


def own(models, i):
    """Client i's variables."""
    tree = jax.tree.map(lambda p: p[i], models)
    return tree if isinstance(tree, dict) and set(tree) == {"params", "batch_stats"} else {"params": tree}


TRAINED = {  # model, its forward pass in a training step, whether it may draw
    "argument": (Net(0.5), by_linen(Held(Net(0.5)), train=True), True),
    "field": (Fielded(), by_linen(Fielded(train=True)), True),
    "own name": (adapt(Unknown(), "is_train"), by_linen(Held(Unknown()), is_train=True), True),
    "key": ((init, dropping), by_function(lambda p, x, key: dropping(p, x, key=key)), True),
    "haiku": (Transformed(init, as_haiku), by_function(lambda p, x, key: as_haiku(p, key, x, True)), True),
    "flag": (SimpleNamespace(init=init, apply=with_flag), by_function(lambda p, x, key: 2 * plain(p, x)), True),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", TRAINED)
def test_clients_train_as_their_library_does(kind):
    """Loss, gradient and new statistics of clients with different models; dropout by the client's key of the round."""
    model, forward, may_draw = TRAINED[kind]
    task = task_of(model)
    assert draws(client_model(model)) is may_draw
    (losses, slopes), models, clients = step(task)
    for i in range(N):
        images, labels, key = batch(task, clients, i)
        variables, found = own(models, i), own(slopes, i)

        def of_library(params, variables=variables, images=images, labels=labels, key=key):
            outputs, moved = forward({**variables, "params": params}, images, key)
            return mean_loss(outputs, labels), moved

        (loss, moved), wanted = jax.value_and_grad(of_library, has_aux=True)(variables["params"])
        np.testing.assert_allclose(losses[i], loss, rtol=1e-4)
        assert_trees_equal(found["params"], wanted, 1e-4)
        assert_trees_equal(statistics(variables, found), moved, 1e-4)
    assert np.ptp(losses) > 0.01


def statistics(before, slopes):
    """The new statistics of a step: they move by their part of the gradient, whatever the length of the step."""
    return {kind: jax.tree.map(jnp.subtract, before[kind], slopes[kind]) for kind in before if kind != "params"}


@pytest.mark.long
def test_clients_train_as_nnx_does():
    task = task_of(dropping_nnx)
    (losses, slopes), models, clients = step(task, apart=0.0)
    for i in range(N):
        module, (images, labels, key) = dropping_nnx(nnx.Rngs(jax.random.key(2))), batch(task, clients, i)
        module.train()
        nnx.reseed(module, default=jax.random.fold_in(key, 0))  # the only stream of these modules
        loss, wanted = nnx.value_and_grad(lambda module, x=images, y=labels: mean_loss(module(x), y))(module)
        np.testing.assert_allclose(losses[i], loss, rtol=1e-4)
        found = own(slopes, i)
        assert_trees_equal(jax.tree.leaves(found["params"]), jax.tree.leaves(wanted), 1e-4)
        moved = jax.tree.leaves(nnx.state(module, nnx.BatchStat))
        assert_trees_equal(jax.tree.leaves(statistics(own(models, i), found)), moved, 1e-4)


DRAWING = {  # rate -> a model without batch statistics that drops at this rate in training
    "samples last": lambda rate: SamplesLast(Last(rate)),
    "functions": lambda rate: (init, dropping if rate else plain),
    "nnx": lambda rate: lambda rngs: NNXNet(rngs, rate=rate, norm=False),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", DRAWING)
def test_draws_do_not_depend_on_devices_and_an_evaluation_has_none(kind):
    make = DRAWING[kind]
    task = task_of(make(0.5))
    found, models, clients = step(task)
    assert not np.allclose(found[0], step(task, key=5)[0][0])
    for elsewhere in ({"devices": 2}, {"tiling": Tiling(mapping="scan")}):
        assert_trees_equal(found, step(task_of(make(0.5), **elsewhere))[0], 1e-5)
    without = task_of(make(0.0))
    assert_trees_equal(task.evaluate(task.data, clients, models), without.evaluate(without.data, clients, models))


@pytest.mark.long
@pytest.mark.parametrize("model", [Net(), lambda rngs: NNXNet(rngs)], ids=["linen", "nnx"])
def test_padding_is_in_no_statistic(model):
    """What stands where no sample is changes nothing; of two samples, both counted twice, the statistics are theirs."""
    model, mask = client_model(model), jnp.array([True, False, True, False])
    images = jax.random.normal(jax.random.key(0), (4, 4, 4, 1))
    variables = model.init(jax.random.key(1), images)
    train = lambda x, mask: model.apply(variables, x, mask, mutable=["batch_stats"])  # noqa: E731
    found, moved = train(images, mask)
    other, moved_too = train(images.at[1::2].set(99.0), mask)
    wanted, moved_alone = train(images[::2], jnp.ones(2, bool))
    assert_trees_equal((found[::2], moved), (other[::2], moved_too))
    assert_trees_equal((found[::2], moved), (wanted, moved_alone), 1e-5)


@pytest.mark.long
def test_recurrent_cells_of_nnx_take_keys_for_zeros():
    class Recurrent(nnx.Module):
        def __init__(self, rngs):
            self.rnn = nnx.RNN(nnx.LSTMCell(4, 5, rngs=rngs), rngs=rngs)
            self.out = nnx.Linear(5, 3, rngs=rngs)

        def __call__(self, x):
            return self.out(self.rnn(x[..., 0])[:, -1])

    model, samples = client_model(Recurrent), jax.random.normal(jax.random.key(3), (2, 4, 4, 1))
    assert set(variables_of(model, SAMPLE, 3)) == {"params"}
    variables, outputs = model.init(jax.random.key(2), samples), Recurrent(nnx.Rngs(jax.random.key(2)))(samples)
    for mask in (None, jnp.ones(2, bool)):
        np.testing.assert_allclose(model.apply(variables, samples, mask), outputs, rtol=1e-5)
    (loss, slopes), *_ = step(task_of(Recurrent))
    assert np.isfinite(loss).all()
    assert all(np.any(leaf) for leaf in jax.tree.leaves(slopes))


# What cannot be used.


class Silent(nn.Module):
    """With batch statistics, and nothing that says whether it trains."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(flat(nn.BatchNorm(use_running_average=True)(x)))


def whole_numbers(key, x):
    return {"w": jnp.zeros((16, 3)), "step": jnp.zeros((), jnp.int32)}


OFF = "with a rate above 0, and no argument tells it whether it is "
MISTAKES = [
    (lambda: adapt(Net(), "mode"), "the model Net has not an argument 'mode'"),
    (lambda: task_of("cnn"), "the model is 'cnn'; it must be a module of flax linen, the class of "),
    (lambda: task_of(adapt(Net()), batch_size=0), "algorithm.batch_size is 0; an adapted model"),
    (Silent(), "the model Silent has batch statistics, and no argument tells it whether "),
    (Unknown(), f"the model Unknown has Dropout {OFF}"),
    ((init, plain, plain), "the model is (<function init"),
    ((whole_numbers, plain), "whole_numbers returned int32 in ['step']; parameters must be floats"),
    ((init, lambda params, x: plain(params, x)[0]), "the model <lambda> returned float32[3] for samples float32["),
]


def test_what_cannot_be_used_is_told_in_a_line():
    for model, said in MISTAKES:
        line = told(model) if getattr(model, "__name__", "") == "<lambda>" else told(task_of, model)
        assert said in line
        assert (OFF in said) <= ("adapt(model, 'name')" in line)


class Few(nn.Module):
    @nn.compact  # here: returned float32[2, 5] for samples
    def __call__(self, x):
        return nn.Dense(5)(flat(x))


class Untrained(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        x = nn.Dense(3)(flat(x))
        return x + jnp.ones(4) if train else x  # here: cannot be trained:


class Unmade(nnx.Module):
    def __init__(self, rngs):
        self.out = nnx.Linear("16", 3, rngs=rngs)  # here: cannot be made: TypeError:


def uncalled(params, x):
    return flat(x) @ params["none"]  # here: cannot be called with samples


AT_A_LINE = {"Few": Few(), "Untrained": Untrained(), "Unmade": Unmade, "uncalled": (init, uncalled)}


@errors_in_one_line()
def study_of(model):
    """What a study does with a model that a user's file registers."""
    task_of(model)


@pytest.mark.usefixtures("unregistered")
def test_a_mistake_in_a_users_file_is_one_line_with_file_and_line():
    rows = [text.partition("  # here: ") for text in Path(__file__).read_text().splitlines()]
    here = {said: number for number, (_, mark, said) in enumerate(rows, 1) if mark and '"' not in said}
    for model, said in zip(AT_A_LINE, here, strict=True):
        line = told(study_of, AT_A_LINE[model])
        assert f"{Path(__file__).name}:{here[said]}: the model {model} {said}" in line
        assert line.count(Path(__file__).name) == 1

    @MODELS.register("mine")
    def mine(settings):
        return None

    line = told(make_study, tiny_config(**{"model.name": "mine", "algorithm.batch_size": 8}))
    assert f"{Path(__file__).name}:{mine.__code__.co_firstlineno}: the model is None; it must be a module of " in line
