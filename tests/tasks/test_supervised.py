"""The task of data sets with other targets than labels: losses, gradients and accuracies against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import r2_score
from small import toy_dataset

from mdfl_jax.data.batching import index_clients
from mdfl_jax.data.dataset import as_dataset
from mdfl_jax.data.partition import DirichletNumbers
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


def test_an_owner_belongs_to_the_client_with_most_of_its_samples():
    """Few samples a client and clients without any, so that each sample can decide."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        owner, natural = rng.integers(-1, 4, 14), rng.integers(0, 5, 14)
        owner[owner == 2] = 3
        index = index_clients(jnp.asarray(owner), jnp.zeros(14, int), num_clients=6, num_classes=1)  # two are padding
        found = client_of_owner(index, jnp.asarray(natural), 5, 4)
        for k in range(5):
            counts = [int(np.sum((owner == i) & (natural == k))) for i in range(4)]
            assert found[k] == (np.argmax(counts) if max(counts) else -1)


def test_a_regression_is_that_of_numpy():
    """Losses and gradients of unequal clients; R^2 is no mean over the chunks of 150 test samples of five models."""
    data = regression(300, 150)
    data = data._replace(x_validation=data.x_test[:9], y_validation=data.y_test[:9])
    task = linear_task(data, tiling=SMALL)
    clients = jax.jit(task.partition)(task.data, DirichletNumbers(jnp.float32(0.3)), KEY)
    models = jax.tree.map(lambda p: p / 10, random_models(task, 5))
    own = jax.tree.map(lambda p: p[:N], models)
    losses, gradients = jax.jit(task.gradient)(task.data, clients, own, KEY)
    score = jax.jit(task.evaluate)(task.data, None, models)
    validated = task.scoring.validate(task.data, None, jax.tree.map(lambda p: p[:1], models))
    ready = lambda a, of: (a - of.mean(axis=0, dtype=float)) / of.std(axis=0, dtype=float)  # noqa: E731
    x, y = ready(data.x_train, data.x_train), ready(data.y_train, data.y_train)
    x_test, y_test = ready(data.x_test, data.x_train), ready(data.y_test, data.y_train)
    assert len(set(np.asarray(clients.num_samples))) > 1
    for i in range(5):
        kernel, bias = weights(models, i)
        error = x_test @ kernel + bias - y_test
        assert score.accuracy[i] == pytest.approx(max(r2_score(y_test, y_test + error), 0), abs=1e-4)
        assert score.loss[i] == pytest.approx(np.mean(error**2), rel=1e-4)
        if i == 0:
            assert validated == pytest.approx(np.mean(error[:9] ** 2), rel=1e-4)
        if i < N:
            mine = samples_of(clients.held, i)
            error = x[mine] @ kernel + bias - y[mine]
            assert losses[i] == pytest.approx(np.mean(error**2), rel=1e-3)
            of_kernel, of_bias = weights(gradients, i)
            np.testing.assert_allclose(of_kernel, x[mine].T @ error / len(mine), rtol=1e-3, atol=1e-3)  # 2 / K, K = 2
            np.testing.assert_allclose(of_bias, error.mean(axis=0), rtol=1e-3, atol=1e-3)
    assert np.max(score.accuracy) > 0


def test_local_accuracy_against_loops():
    rng, toy = np.random.default_rng(3), toy_dataset(num_train=60, num_test=31)
    client_test = rng.integers(0, 8, 31)
    client_test[client_test == 6] = 99  # an owner without training samples
    arrays = {"x_train": toy.x_train, "y_train": toy.y_train, "x_test": toy.x_test, "y_test": toy.y_test}
    data = as_dataset("mine", "mine", arrays | {"client": rng.integers(0, 8, 60), "client_test": client_test})
    task = linear_task(data, partition="dirichlet", tiling=Tiling(tile=16))
    clients = jax.jit(task.partition)(task.data, DirichletNumbers(jnp.float32(0.1)), KEY)
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
