"""The task of data sets with other targets than labels: losses, gradients and accuracies against NumPy."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import r2_score
from small import toy_dataset

from mdfl_jax.data.batching import index_clients
from mdfl_jax.data.dataset import as_dataset
from mdfl_jax.data.partition import DirichletNumbers, PartitionNumbers
from mdfl_jax.data.partition.by_owner import OwnerNumbers
from mdfl_jax.models import make_model
from mdfl_jax.tasks import spec_of, supervised
from mdfl_jax.tasks.gradients import Tiling
from mdfl_jax.tasks.scoring import client_of_owner

N, KEY = 4, jax.random.key(0)
SMALL = Tiling(block_size=3, tile=6)  # several blocks a client, the last one padded


def dataset_of(x, y, test=7, **more):
    """The first samples are for testing."""
    return as_dataset(
        "mine", "mine", {"x_train": x[test:], "y_train": y[test:], "x_test": x[:test], "y_test": y[:test], **more}
    )


def regression(count=60, test=20, targets=2):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 3)) * [1, 50, 0.1] + [0, 1000, 0]
    y = (x @ rng.normal(size=(3, targets)) + rng.normal(size=(count, targets))) * [1, 300][:targets] + 5
    return dataset_of(x, y, test)


def linear_task(data, **settings):
    model = make_model("linear", data.num_classes, sample=spec_of(data))
    return supervised(data, model, N, **settings)


def random_models(task, count=N):
    rng = np.random.default_rng(1)
    shapes = jax.eval_shape(task.init, task.data, KEY)
    return jax.tree.map(lambda p: jnp.asarray(rng.normal(size=(count, *p.shape)) / 2, jnp.float32), shapes)


def weights(models, i):
    kernel, bias = sorted(jax.tree.leaves(jax.tree.map(lambda p: np.asarray(p[i], np.float64), models)), key=np.ndim)[
        ::-1
    ]
    return kernel, bias


def samples_of(held, i):
    held = jax.device_get(held)
    return held.sample[held.first[i] : held.first[i] + held.num_samples[i]]


@pytest.mark.long
@pytest.mark.parametrize("normalize", ["auto", "none"])
def test_the_gradient_of_a_regression_is_that_of_numpy(normalize):
    data = regression()._replace(normalize=normalize)
    if normalize == "none":
        data = data._replace(x_train=data.x_train / 100, y_train=data.y_train / 100)
    task = linear_task(data, tiling=SMALL)
    clients = jax.jit(task.partition)(task.data, DirichletNumbers(jnp.float32(0.3)), KEY)
    models = random_models(task)
    losses, gradients = jax.jit(task.gradient)(task.data, clients, models, KEY)
    x, y = data.x_train.astype(np.float64), data.y_train.astype(np.float64)
    if normalize == "auto":
        x, y = ((a - a.mean(axis=0)) / a.std(axis=0) for a in (x, y))
    assert len(set(np.asarray(clients.num_samples))) > 1
    for i in range(N):
        kernel, bias = weights(models, i)
        mine = samples_of(clients.held, i)
        error = x[mine] @ kernel + bias - y[mine]
        assert losses[i] == pytest.approx(np.mean(error**2), rel=1e-3)
        of_kernel, of_bias = weights(gradients, i)
        np.testing.assert_allclose(of_kernel, x[mine].T @ error / len(mine), rtol=1e-3, atol=1e-3)  # 2 / K, K = 2
        np.testing.assert_allclose(of_bias, error.mean(axis=0), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("count", [1, 5])
def test_r2_is_that_of_the_whole_test_set(count):
    """It is not a mean over chunks: 150 test samples of 5 models are in several."""
    data = regression(300, 150)
    task = linear_task(data, tiling=Tiling(tile=16))
    models = jax.tree.map(lambda p: p / 10, random_models(task, count))
    score = jax.jit(task.evaluate)(task.data, None, models)
    x = (data.x_test - data.x_train.mean(axis=0, dtype=float)) / data.x_train.std(axis=0, dtype=float)
    y = (data.y_test - data.y_train.mean(axis=0, dtype=float)) / data.y_train.std(axis=0, dtype=float)
    for i in range(count):
        kernel, bias = weights(models, i)
        assert score.accuracy[i] == pytest.approx(max(r2_score(y, x @ kernel + bias), 0), abs=1e-4)
        assert score.loss[i] == pytest.approx(np.mean((x @ kernel + bias - y) ** 2), rel=1e-4)
    assert count == 1 or np.max(score.accuracy) > 0


class Tagger(nn.Module):
    """Outputs of each token alone."""

    @nn.compact
    def __call__(self, tokens):
        return nn.Embed(6, 5)(tokens)


def sequences(count=30, test=9):
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 6, (count, 4)), rng.integers(-1, 5, (count, 4))
    y[:, 0] = 4  # each sequence has a label
    return dataset_of(x, y, test)


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [0, 5])
def test_sequences_are_learnt_by_position(batch_size):
    data = sequences()
    task = supervised(data, Tagger(), N, partition="iid", tiling=SMALL, batch_size=batch_size)
    clients = jax.jit(task.partition)(task.data, PartitionNumbers(), KEY)
    assert clients.label_counts.shape == (N, 1)
    models = random_models(task)
    losses, gradients = jax.jit(task.gradient)(task.data, clients, models, KEY)
    score = jax.jit(task.evaluate)(task.data, clients, models)

    def of_sequence(table, tokens, labels):
        rows = table[tokens]
        log = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
        there = [t for t in range(4) if labels[t] >= 0]
        return -np.mean([log[t, labels[t]] for t in there])

    if batch_size == 0:
        for i in range(N):
            (table,) = (np.asarray(leaf[i], np.float64) for leaf in jax.tree.leaves(models))
            mine = samples_of(clients.held, i)
            mean = lambda table: np.mean([of_sequence(table, data.x_train[k], data.y_train[k]) for k in mine])  # noqa: B023, E731
            assert losses[i] == pytest.approx(mean(table), rel=1e-4)
            step = np.zeros_like(table)
            step[2, 3] = 1e-5
            slope = (mean(table + step) - mean(table - step)) / 2e-5
            assert jax.tree.leaves(gradients)[0][i][2, 3] == pytest.approx(slope, abs=1e-5)
    (tables,) = jax.tree.leaves(models)
    for i in range(N):
        right = np.argmax(np.asarray(tables[i])[data.x_test], axis=2) == data.y_test
        assert score.accuracy[i] == pytest.approx(right.sum() / (data.y_test >= 0).sum())
        expected = np.mean([of_sequence(np.asarray(tables[i], float), x, y) for x, y in zip(data.x_test, data.y_test)])
        assert score.loss[i] == pytest.approx(expected, rel=1e-4)
    assert np.isfinite(losses).all()


def owned_dataset():
    rng = np.random.default_rng(3)
    toy = toy_dataset(num_train=60, num_test=31)
    client_test = rng.integers(0, 8, 31)
    client_test[client_test == 6] = 99  # an owner without training samples
    arrays = {"x_train": toy.x_train, "y_train": toy.y_train, "x_test": toy.x_test, "y_test": toy.y_test}
    return as_dataset("mine", "mine", arrays | {"client": rng.integers(0, 8, 60), "client_test": client_test})


@pytest.mark.long
@pytest.mark.parametrize(
    ("partition", "numbers"), [("by_owner", OwnerNumbers()), ("dirichlet", DirichletNumbers(jnp.float32(0.1)))]
)
def test_local_accuracy_against_loops(partition, numbers):
    data = owned_dataset()
    task = linear_task(data, partition=partition, tiling=Tiling(tile=16))
    clients = jax.jit(task.partition)(task.data, numbers, KEY)
    models = random_models(task)
    found = jax.jit(task.scoring.local_accuracy)(task.data, clients, models)
    x = (data.x_test - np.asarray(task.data.mean)) / np.asarray(task.data.std)
    for i in range(N):
        kernel, bias = weights(models, i)
        predicted = (x.reshape(31, -1) @ kernel + bias).argmax(axis=1)
        right = []
        for k in range(31):
            held = [np.sum(data.client[samples_of(clients.held, j)] == data.client_test[k]) for j in range(N)]
            if max(held) > 0 and np.argmax(held) == i:
                right.append(predicted[k] == data.y_test[k])
        np.testing.assert_allclose(found[i], np.mean(right) if right else np.nan)
    known = np.asarray(found)[np.isfinite(found)]
    assert len(set(known)) > 1, "a test that can see a mistake"


def test_local_accuracy_of_a_regression_is_r2_of_the_own_samples():
    data = regression(120, 60)
    data = data._replace(client=np.arange(60) % 4, client_test=np.arange(60) // 10 % 4)
    task = linear_task(data, partition="by_owner")
    clients = jax.jit(task.partition)(task.data, OwnerNumbers(), KEY)
    models = jax.tree.map(lambda p: p / 10, random_models(task))
    found = jax.jit(task.scoring.local_accuracy)(task.data, clients, models)
    x = (data.x_test - np.asarray(task.data.mean)) / np.asarray(task.data.std)
    for i in range(N):
        (owner,) = set(data.client[samples_of(clients.held, i)])
        mine = data.client_test == owner
        kernel, bias = weights(models, i)
        expected = r2_score(np.asarray(task.data.y_test)[mine], x[mine] @ kernel + bias)
        assert found[i] == pytest.approx(max(expected, 0), abs=1e-3)


def test_validation_samples_of_the_source_are_those_of_the_validation_loss():
    data = regression()
    data = data._replace(x_validation=data.x_test[:9], y_validation=data.y_test[:9])
    task = linear_task(data)
    models = random_models(task, 1)
    held = linear_task(data._replace(x_test=data.x_test[:9], y_test=data.y_test[:9]))
    expected = held.evaluate(held.data, None, models).loss[0]
    np.testing.assert_allclose(task.validate(task.data, None, models), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_an_owner_belongs_to_the_client_with_most_of_its_samples(seed):
    """Few samples a client and clients without any, so that each sample can decide."""
    rng = np.random.default_rng(seed)
    owner, natural = rng.integers(-1, 4, 14), rng.integers(0, 5, 14)
    owner[owner == 2] = 3
    index = index_clients(jnp.asarray(owner), jnp.zeros(14, int), num_clients=6, num_classes=1)  # two of them padding
    found = client_of_owner(index, jnp.asarray(natural), 5, 4)
    for k in range(5):
        counts = [int(np.sum((owner == i) & (natural == k))) for i in range(4)]
        assert found[k] == (np.argmax(counts) if max(counts) else -1)
