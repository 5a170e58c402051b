"""Flax models written for other programs: their gradients by flax itself, their errors in a line."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from adapted import N, started, step, task_of, trained_by_linen, trained_by_the_task
from small import assert_trees_equal, toy_hparams

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.core.errors import UserError
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import SamplesLast, adapt, make_model
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.tasks.gradients import Tiling


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


class Attends(nn.Module):
    """Attention over rows, layer normalisation and dropout, told by ``deterministic``."""

    @nn.compact
    def __call__(self, x, *, deterministic):
        x = nn.Dense(8)(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(2, dropout_rate=0.5)(nn.LayerNorm()(x), deterministic=deterministic)
        return nn.Dense(3)(nn.Dropout(0.5, deterministic=deterministic)(x).mean(axis=1))


class Fielded(nn.Module):
    """Told by a field, as some libraries write it."""

    train: bool = True

    def setup(self):
        self.norm = nn.BatchNorm(use_running_average=not self.train, momentum=0.9)
        self.drop = nn.Dropout(0.5, deterministic=not self.train)
        self.out = nn.Dense(3)

    def __call__(self, x):
        return self.out(self.drop(self.norm(x.reshape(x.shape[0], -1))))


class Named(nn.Module):
    """Told by an argument of another name."""

    @nn.compact
    def __call__(self, x, learning=False):
        return nn.Dense(3)(nn.Dropout(0.5, deterministic=not learning)(x.reshape(x.shape[0], -1)))


class Normal(nn.Module):
    """With layer normalisation alone, which needs neither an argument nor `adapt`."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.LayerNorm()(x.reshape(x.shape[0], -1)))


class Held(nn.Module):
    """A plain module around another, as `Adapted` is: linen's draws depend on the names of modules."""

    inner: nn.Module

    @nn.compact
    def __call__(self, x, **told):
        return self.inner(x, **told)


def called(module, **told):
    """A training step's forward pass by linen itself, from the variables of a client model."""

    def forward(variables, images, key):
        return module.apply(variables, images, **told, mutable=["batch_stats"], rngs={"dropout": key})

    return forward


def own(models, i):
    """Client i's variables."""
    tree = jax.tree.map(lambda p: p[i], models)
    return tree if set(tree) == {"params", "batch_stats"} else {"params": tree}


@pytest.mark.long
@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("model", "forward"),
    [
        (Net(), called(Held(Net()), train=True)),
        (Attends(), called(Held(Attends()), deterministic=False)),
        (Fielded(), called(Fielded(train=True))),
        (adapt(Named(), "learning"), called(Held(Named()), learning=True)),
        (Normal(), called(Normal())),
    ],
    ids=["argument", "attention", "field", "own_name", "no_mode"],
)
def test_clients_train_as_linen_and_optax_do(model, forward):
    """Of clients with different models; Dropout by the client's key of the round is compared too."""
    task = task_of(model)
    clients, models = started(task)
    losses, after = trained_by_the_task(task, models, clients)
    for i in range(N):
        wanted, variables = trained_by_linen(task, clients, own(models, i), forward, i)
        np.testing.assert_allclose(losses[:, i], wanted, rtol=1e-4)
        assert_trees_equal(own(after, i), variables, 1e-4)
    assert np.ptp(losses, axis=0).min() > 0.01


@pytest.mark.long
def test_dropout_draws_anew_each_step_for_each_client_and_on_any_devices_alike():
    task = task_of(Net(rate=0.5, norm=False))
    (first, found), _, _ = step(task)
    (again, _), _, _ = step(task)
    (other, _), _, _ = step(task, key=5)
    assert_trees_equal(first, again)
    assert not np.allclose(first, other)
    dropped = [np.flatnonzero(np.abs(g).sum(axis=1) == 0) for g in np.asarray(found["inner"]["Dense_0"]["kernel"])]
    assert len({tuple(d) for d in dropped}) == N  # features that no sample of the minibatch let through, by client
    for elsewhere in ({"devices": 2}, {"tiling": Tiling(mapping="vmap")}, {"tiling": Tiling(mapping="scan")}):
        (over, same), _, _ = step(task_of(Net(rate=0.5, norm=False), **elsewhere))
        assert_trees_equal((first, found), (over, same), 1e-5)


@pytest.mark.long
@pytest.mark.parametrize("make", [lambda rate: Net(rate=rate), lambda rate: adapt(Net(rate=rate), "train")])
def test_an_evaluation_drops_nothing_and_uses_the_running_statistics(make):
    models = [make(rate) for rate in (0.0, 0.9)]
    scores = []
    for model in models:
        task = task_of(model)
        (_, _), params, clients = step(task_of(models[0]))
        scores.append(task.evaluate(task.data, clients, params))
    assert_trees_equal(*scores)
    task, one = task_of(models[0]), jax.tree.map(lambda p: p[:1], params)
    variables = {name: tree["inner"] for name, tree in own(one, 0).items()}
    images = (task.data.x_test.astype(jnp.float32) - task.data.mean) / task.data.std
    right = jnp.argmax(Net().apply(variables, images, False), axis=1) == task.data.y_test
    loss = optax.softmax_cross_entropy_with_integer_labels(Net().apply(variables, images, False), task.data.y_test)
    found = task.evaluate(task.data, clients, one)
    np.testing.assert_allclose((found.accuracy[0], found.loss[0]), (right.mean(), loss.mean()), rtol=1e-5)


@pytest.mark.long
def test_a_run_learns():
    task = task_of(adapt(Net(rate=0.1)))
    simulation = Simulation(task, spatial(N, 3, ("random_movement",)), dpsgd(), Schedule(20, 20))
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
        return nn.Dense(3)(nn.BatchNorm(use_running_average=True)(x).reshape(x.shape[0], -1))


class Wide(nn.Module):
    """With other outputs than there are classes."""

    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(5)(x.reshape(x.shape[0], -1))


class Keeps(nn.Module):
    """With a variable of its own kind."""

    @nn.compact
    def __call__(self, x):
        self.variable("memory", "seen", jnp.zeros, ())
        return nn.Dense(3)(x.reshape(x.shape[0], -1))


class Fails(nn.Module):
    """With a mistake that only a training step comes to."""

    @nn.compact
    def __call__(self, x, train):
        x = nn.Dense(3)(x.reshape(x.shape[0], -1))
        return x + jnp.ones(7) if train else x


class Empty(nn.Module):
    """Without parameters."""

    def __call__(self, x):
        return x.reshape(x.shape[0], -1)[:, :3]


class Drops(nn.Module):
    """Draws in evaluation, too."""

    @nn.compact
    def __call__(self, x):
        return nn.Dropout(0.5, deterministic=False)(nn.Dense(3)(x.reshape(x.shape[0], -1)))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: adapt(Net(), "mode"), "the model Net has not an argument 'mode'"),
        (
            lambda: adapt((7, 7), "train"),
            "adapt's argument 'training' is 'train'; it is only for ",
        ),
        (lambda: task_of(Net), "the model is the class Net; of a module of linen an instance is needed"),
        (
            lambda: task_of("cnn"),
            "the model is 'cnn'; it must be a module of flax linen, the class of ",
        ),
        (
            lambda: task_of(Silent()),
            "the model Silent has batch statistics, and no argument tells it whether ",
        ),
        (lambda: task_of(Drops()), "the model Drops cannot be called with samples float32[2, 4, 4, 1] alone: "),
        (
            lambda: task_of(Fails()),
            "the model Fails cannot be trained: ValueError: Incompatible shapes for broadcasting",
        ),
        (
            lambda: task_of(Keeps()),
            "the model Keeps has variables ['memory']; clients have params and batch_stats ",
        ),
        (lambda: task_of(Empty()), "the model Empty has no parameters"),
        (lambda: task_of(adapt(Net()), batch_size=0), "algorithm.batch_size is 0; an adapted model"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_line(make, said):
    with pytest.raises(UserError) as error:
        make()
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


def test_other_outputs_are_told_with_file_and_line():
    with pytest.raises(UserError, match=r"^[\w/]+\.py:\d+: the model Wide returned float32\[2, 5\] for samples"):
        task_of(Wide())


@pytest.mark.long
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
