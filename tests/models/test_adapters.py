"""Flax models written for other programs: their gradients by flax itself, their errors in a line."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small import assert_trees_equal, toy_dataset, toy_hparams

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.errors import UserError
from mdfl_jax.models import SamplesLast, adapt, make_model
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.sharding import client_mesh
from mdfl_jax.simulation import build
from mdfl_jax.tasks import classification

N, BATCH = 4, 6


class Net(nn.Module):
    """As users write them: flax's own layers, told by ``train``."""

    rate: float = 0.0
    norm: bool = True

    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.Conv(4, (3, 3))(x)
        if self.norm:
            x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        x = nn.relu(x).reshape(x.shape[0], -1)
        x = nn.Dropout(self.rate, deterministic=not train)(x)
        return nn.Dense(3)(x)


def task_of(model, devices=1, **settings):
    mesh = client_mesh(jax.devices()[:devices])
    return classification(toy_dataset(), model, N, "iid", **{"batch_size": BATCH, "mesh": mesh} | settings)


def step(task, key=1):
    """(loss [N], gradients) of different models, and those models."""
    clients = task.partition(task.data, toy_hparams().task, jax.random.key(0))
    one = task.init(task.data, jax.random.key(2))
    shift = lambda p: jnp.stack([p + 0.01 * i * jnp.ones_like(p) for i in range(N)])  # noqa: E731
    params = jax.tree.map(shift, one)
    gradient = jax.jit(lambda p: task.gradient(task.data, clients, p, jax.random.key(key)))
    return gradient(params), params, clients


def test_gradients_and_statistics_are_those_of_flax():
    task = task_of(adapt(Net()))
    (loss, found), params, clients = step(task)
    from mdfl_jax.tasks.blocks import minibatch_blocks

    blocks = minibatch_blocks(jax.random.key(1), clients.held, BATCH, BATCH)
    data = task.data
    for i in range(N):
        own = jax.tree.map(lambda p, i=i: p[i]["inner"] if isinstance(p, dict) else p[i], params)
        inner = {name: tree["inner"] for name, tree in own.items()}
        images = (data.x_train[blocks.sample[i]].astype(jnp.float32) - data.mean) / data.std
        labels = data.y_train[blocks.sample[i]]

        def mean_loss(weights, inner=inner, images=images, labels=labels):
            variables = {"params": weights, "batch_stats": inner["batch_stats"]}
            outputs, moved = Net().apply(variables, images, True, mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(outputs, labels).mean(), moved

        (wanted, moved), slopes = jax.value_and_grad(mean_loss, has_aux=True)(inner["params"])
        np.testing.assert_allclose(loss[i], wanted, rtol=1e-4)
        mine = jax.tree.map(lambda g, i=i: g[i], found)
        assert_trees_equal(mine["params"]["inner"], slopes, 1e-4)
        by = jax.tree.map(lambda now, then: now - then, inner["batch_stats"], moved["batch_stats"])
        assert_trees_equal(mine["batch_stats"]["inner"], by, 1e-4)


def test_dropout_draws_anew_each_step_for_each_client_and_on_any_devices_alike():
    task = task_of(adapt(Net(rate=0.5, norm=False)))
    (first, found), _, _ = step(task)
    (again, _), _, _ = step(task)
    (other, _), _, _ = step(task, key=5)
    assert_trees_equal(first, again)
    assert not np.allclose(first, other)
    dropped = [np.flatnonzero(np.abs(g).sum(axis=1) == 0) for g in np.asarray(found["inner"]["Dense_0"]["kernel"])]
    assert len({tuple(d) for d in dropped}) == N  # features that no sample of the minibatch let through, by client
    (over_two, same), _, _ = step(task_of(adapt(Net(rate=0.5, norm=False)), devices=2))
    assert_trees_equal((first, found), (over_two, same), 1e-5)


def test_an_evaluation_drops_nothing_and_uses_the_running_statistics():
    models = [adapt(Net(rate=rate)) for rate in (0.0, 0.9)]
    scores = []
    for model in models:
        task = task_of(model)
        (_, _), params, clients = step(task_of(models[0]))
        scores.append(task.evaluate(task.data, clients, params))
    assert_trees_equal(*scores)
    task, one = task_of(models[0]), jax.tree.map(lambda p: p[:1], params)
    variables = jax.tree.map(lambda p: p[0], {name: tree["inner"] for name, tree in one.items()})
    images = (task.data.x_test.astype(jnp.float32) - task.data.mean) / task.data.std
    right = jnp.argmax(Net().apply(variables, images, False), axis=1) == task.data.y_test
    loss = optax.softmax_cross_entropy_with_integer_labels(Net().apply(variables, images, False), task.data.y_test)
    found = task.evaluate(task.data, clients, one)
    np.testing.assert_allclose((found.accuracy[0], found.loss[0]), (right.mean(), loss.mean()), rtol=1e-5)


@pytest.mark.long
def test_a_run_learns():
    task = task_of(adapt(Net(rate=0.1)))
    simulation = build(task, spatial(N, 3, ("random_movement",)), dpsgd(), Schedule(20, 20))
    hparams = toy_hparams(mobility=0, lr=0.05, num_mobile=1)
    carry, before = simulation.init(simulation.data, hparams, jax.random.key(0))
    _, after = jax.jit(simulation.advance)(simulation.data, hparams, jax.random.key(0), carry)
    assert float(after.mean_model_loss) < 0.7 * float(before.mean_model_loss)


class Last(nn.Module):
    """Samples last."""

    @nn.compact
    def __call__(self, x):  # [channels, H, W, B]
        return nn.Dense(3, name="Dense_0")(x.reshape(-1, x.shape[-1]).T)


def test_samples_last_is_the_same_model():
    plain, last = make_model("linear", 3), SamplesLast(Last())
    images = jax.random.normal(jax.random.key(0), (5, 4, 4, 1))
    weights = plain.init(jax.random.key(1), images)["params"]
    kernel, bias = (jax.tree.leaves(weights)[k] for k in (1, 0))
    found = last.apply({"params": {"inner": {"Dense_0": {"kernel": kernel, "bias": bias}}}}, images)
    np.testing.assert_allclose(found, plain.apply({"params": weights}, images), rtol=1e-5)


class Silent(nn.Module):
    """With batch statistics, and nothing that says whether it trains."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.BatchNorm(use_running_average=False)(x).reshape(x.shape[0], -1))


class Drops(nn.Module):
    """Draws in evaluation, too."""

    @nn.compact
    def __call__(self, x):
        return nn.Dropout(0.5, deterministic=False)(nn.Dense(3)(x.reshape(x.shape[0], -1)))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: adapt(Last()), "the model Last has not one of the arguments train, training"),
        (lambda: adapt(Net(), "mode"), "the model Net has not an argument 'mode'"),
        (lambda: task_of(Net()), "the model Net is told by train whether it trains; "),
        (lambda: task_of(Silent()), "the model Silent cannot be called with images [2, 4, 4, 1] alone: "),
        (lambda: task_of(Drops()), "the model Drops cannot be called with images [2, 4, 4, 1] alone: "),
        (
            lambda: task_of(SamplesLast(adapt(Net()))),
            "the model SamplesLast makes [1, 3] of images [2, 4, 4, 1]",
        ),
        (lambda: task_of(adapt(Net()), batch_size=0), "algorithm.batch_size is 0; an adapted model"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_line(make, said):
    with pytest.raises(UserError) as error:
        make()
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


def test_padding_is_in_no_statistic():
    """What stands where no sample is changes nothing; of two samples, both counted twice, the statistics are theirs."""
    model, mask = adapt(Net()), jnp.array([True, False, True, False])
    images = jax.random.normal(jax.random.key(0), (4, 4, 4, 1))
    variables = model.init(jax.random.key(1), images)
    train = lambda x, mask: model.apply(variables, x, mask, mutable=["batch_stats"])  # noqa: E731
    found, moved = train(images, mask)
    other, moved_too = train(images.at[1::2].set(99.0), mask)
    wanted, moved_alone = train(images[::2], jnp.ones(2, bool))
    assert_trees_equal((found[::2], moved), (other[::2], moved_too))
    assert_trees_equal((found[::2], moved), (wanted, moved_alone), 1e-5)
