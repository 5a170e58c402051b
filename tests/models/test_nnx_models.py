"""Modules of flax nnx as clients' models: trained as nnx trains them, and their errors in a line."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from adapted import LR, N, batches, started, step, task_of, trained_by_the_task
from flax import nnx
from small import assert_trees_equal

from mdfl_jax.core.errors import UserError
from mdfl_jax.models import SampleSpec, adapt, client_model
from mdfl_jax.models.adapters import draws, variables_of
from mdfl_jax.tasks.gradients import Tiling


class Net(nnx.Module):
    """As users write them, with two layers of dropout that must not draw alike."""

    def __init__(self, rngs, rate=0.0, norm=True):
        self.conv = nnx.Conv(1, 4, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(4, momentum=0.9, rngs=rngs) if norm else None
        self.drops = nnx.List([nnx.Dropout(rate, rngs=rngs) for _ in range(2)])
        self.out = nnx.Linear(64, 3, rngs=rngs)

    def __call__(self, x):
        x = self.conv(x)
        x = nnx.relu(self.norm(x) if self.norm else x).reshape(x.shape[0], -1)
        for drop in self.drops:
            x = drop(x)
        return self.out(x)


class Attends(nnx.Module):
    """Attention over rows, layer normalisation, a constant table, and an argument that tells the mode."""

    def __init__(self, width, *, rngs):
        self.embed = nnx.Linear(4, width, rngs=rngs)
        self.places = 0.1 * jnp.arange(4.0)[:, None]
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, width, dropout_rate=0.5, decode=False, rngs=rngs)
        self.out = nnx.Linear(width, 3, rngs=rngs)

    def __call__(self, x, deterministic: bool):
        x = self.embed(x[..., 0]) + self.places
        x = x + self.attention(self.norm(x), deterministic=deterministic)
        return self.out(x.mean(axis=1))


def dropping(rngs):
    return Net(rngs, rate=0.5)


def attending(rngs):
    return Attends(8, rngs=rngs)


def trained_by_nnx(task, clients, module, i, **told):
    """(losses, module) of one client with nnx and optax alone."""
    optimiser, losses = nnx.Optimizer(module, optax.sgd(LR), wrt=nnx.Param), []
    module.train()

    def mean_loss(module, images, labels):
        outputs = module(images, **told)
        return optax.softmax_cross_entropy_with_integer_labels(outputs, labels).mean()

    for images, labels, key in batches(task, clients, i):
        nnx.reseed(module, default=jax.random.fold_in(key, 0))  # the only stream of these modules
        loss, slopes = nnx.value_and_grad(mean_loss)(module, images, labels)
        optimiser.update(module, slopes)
        losses.append(loss)
    return np.stack(losses), module


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize(("make", "told"), [(dropping, {}), (attending, {"deterministic": False})])
def test_clients_train_as_nnx_does(make, told):
    task = task_of(make)
    clients, models = started(task, apart=0.0)
    losses, after = trained_by_the_task(task, models, clients)
    for i in range(N):
        wanted, module = trained_by_nnx(task, clients, make(nnx.Rngs(jax.random.key(2))), i, **told)
        np.testing.assert_allclose(losses[:, i], wanted, rtol=1e-4)
        mine = jax.tree.map(lambda p, i=i: p[i], after)
        params, statistics = nnx.state(module, nnx.Param), nnx.state(module, nnx.BatchStat)
        trees = (mine["params"], mine["batch_stats"]) if jax.tree.leaves(statistics) else (mine, {})
        wanted = [jax.tree.leaves(params), jax.tree.leaves(statistics)]
        assert_trees_equal(list(map(jax.tree.leaves, trees)), wanted, 1e-4)
    assert np.ptp(losses, axis=0).min() > 0.01  # it has trained at all


@pytest.mark.long
def test_dropout_differs_by_client_layer_and_round_and_not_by_devices():
    task = task_of(lambda rngs: Net(rngs, rate=0.5, norm=False))
    (first, found), params, clients = step(task)
    (again, _), _, _ = step(task)
    (other, _), _, _ = step(task, key=5)
    assert_trees_equal(first, again)
    assert not np.allclose(first, other)
    dropped = [np.flatnonzero(np.abs(g).sum(axis=1) == 0) for g in np.asarray(found["out.kernel"])]
    assert len({tuple(d) for d in dropped}) == N
    # All six samples lose a feature with probability (3/4)^6; if both layers drew alike, with (1/2)^6.
    assert np.mean([len(d) / 64 for d in dropped]) > 0.1
    for elsewhere in ({"devices": 2}, {"tiling": Tiling(mapping="vmap")}, {"tiling": Tiling(mapping="scan")}):
        (over, same), _, _ = step(task_of(lambda rngs: Net(rngs, rate=0.5, norm=False), **elsewhere))
        assert_trees_equal((first, found), (over, same), 1e-5)
    with_none = task_of(lambda rngs: Net(rngs, rate=0.0, norm=False))
    assert_trees_equal(task.evaluate(task.data, clients, params), with_none.evaluate(task.data, clients, params))


@pytest.mark.long
def test_an_evaluation_uses_the_running_statistics():
    task = task_of(dropping)
    clients, models = started(task, apart=0.0)
    _, after = trained_by_the_task(task, models, clients)
    _, module = trained_by_nnx(task, clients, dropping(nnx.Rngs(jax.random.key(2))), 1)
    module.eval()
    images = (task.data.x_test.astype(jnp.float32) - task.data.mean) / task.data.std
    loss = optax.softmax_cross_entropy_with_integer_labels(module(images), task.data.y_test).mean()
    np.testing.assert_allclose(task.evaluate(task.data, clients, after).loss[1], loss, rtol=1e-4)


@pytest.mark.long
def test_padding_is_in_no_statistic():
    model, mask = client_model(lambda rngs: Net(rngs)), jnp.array([True, False, True, False])
    images = jax.random.normal(jax.random.key(0), (4, 4, 4, 1))
    variables = model.init(jax.random.key(1), images)
    train = lambda x, mask: model.apply(variables, x, mask, mutable=["batch_stats"])  # noqa: E731
    found, moved = train(images, mask)
    other, moved_too = train(images.at[1::2].set(99.0), mask)
    wanted, moved_alone = train(images[::2], jnp.ones(2, bool))
    assert_trees_equal((found[::2], moved), (other[::2], moved_too))
    assert_trees_equal((found[::2], moved), (wanted, moved_alone), 1e-5)


class Small(nnx.Module):
    def __init__(self, rngs):
        self.dense = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x):
        return self.dense(x.reshape(x.shape[0], -1))


class Noisy(Small):
    """Draws in evaluation, too."""

    def __init__(self, rngs):
        super().__init__(rngs)
        self.streams = rngs

    def __call__(self, x):
        return super().__call__(x) + jax.random.normal(self.streams.noise(), (3,))


class Counts(Small):
    """Keeps a number that is no statistic."""

    def __init__(self, rngs):
        super().__init__(rngs)
        self.calls = nnx.Variable(jnp.zeros(()))

    def __call__(self, x):
        self.calls[...] += 1
        return super().__call__(x)


class Wrong(Small):
    def __call__(self, x):
        return super().__call__(x)[:, :2]


class Given(Small):
    """Takes its streams when it is called."""

    def __call__(self, x, rngs=None):
        x = super().__call__(x)
        return x if rngs is None else x * jax.random.bernoulli(rngs.noise(), 0.5, x.shape)


@pytest.mark.long
def test_a_module_without_modes_needs_none_and_streams_may_come_with_the_call():
    assert not draws(client_model(Small))
    assert client_model(client_model(Small)).draws is False
    assert draws(adapt(Given))
    (first, _), _, _ = step(task_of(Given))
    (other, _), _, _ = step(task_of(Given), key=5)
    assert not np.allclose(first, other)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Small(nnx.Rngs(0)), "the model is an instance of Small; of a module of nnx its class is needed"),
        (Noisy, "the model Noisy draws random numbers in evaluation"),
        (Counts, "the model Counts changes or adds a variable that is neither nnx.Param nor nnx.BatchStat"),
        (lambda rngs: 7, "the function for a model of nnx returned int, not an nnx.Module"),
        (lambda rngs: Small(), "the model <lambda> cannot be made: TypeError: "),
    ],
)
def test_what_cannot_be_used_is_told_in_a_line(model, said):
    with pytest.raises(UserError) as error:
        variables_of(client_model(model), SampleSpec((4, 4, 1)), 3)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_other_outputs_are_told_with_file_and_line():
    with pytest.raises(
        UserError, match=r"test_nnx_models\.py:\d+: the model Wrong returned float32\[2, 2\] for samples"
    ):
        variables_of(client_model(Wrong), SampleSpec((4, 4, 1)), 3)
