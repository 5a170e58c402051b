"""Clipped and noised gradients, and Poisson samples, against one sample at a time and the laws of the draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import toy_dataset

from mdfl_jax.contrib.privacy.account import largest_draw
from mdfl_jax.contrib.privacy.sgd import SAMPLING, PrivateNumbers, clipped, poisson_sample, private
from mdfl_jax.core.trees import ravel
from mdfl_jax.data.batching import index_clients
from mdfl_jax.data.partition import DirichletNumbers
from mdfl_jax.models import make_model
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.gradients import Tiling

N, CLASSES = 5, 3
KEY = jax.random.key(8)


def made(batch_size=0, clip=np.inf, noise=0.0, least=1, name="linear", by_leaf=False, largest=40, **sizes):
    """A plain task, the private one around it, the clients of both and N models."""
    model = make_model(name, CLASSES) if name == "linear" else make_model(name, CLASSES, widths=(4,), hidden=8)
    plain = classification(toy_dataset(), model, N, batch_size=batch_size, partition="dirichlet", **sizes)
    task = private(plain, batch_size, largest, by_leaf)
    inner = DirichletNumbers(np.float32(0.3))
    numbers = PrivateNumbers(inner, np.float32(clip), np.float32(noise), np.float32(1e-5), np.int32(least))
    clients = task.partition(task.data, numbers, KEY)
    keys = jax.random.split(jax.random.key(1), N)
    models = jax.tree.map(lambda *p: jnp.stack(p), *[task.init(task.data, key) for key in keys])
    return plain, task, clients, models


def one_at_a_time(plain, clients, models, samples_of, clip, by_leaf=False):
    """[N, d], the sums of the clipped gradients, one sample after another."""
    data, found = plain.data, []
    learner = plain.gradient.__self__
    for i in range(N):
        own = jax.tree.map(lambda p, i=i: p[i], models)

        def loss(params, sample):
            x, y = data.x_train[sample][None], data.y_train[sample]
            return -jax.nn.log_softmax(learner.logits(params, data, x))[0, y]

        total, of_one = jax.tree.map(jnp.zeros_like, own), jax.jit(jax.grad(loss))
        for sample in samples_of(i):
            g = of_one(own, sample)
            parts = [np.linalg.norm(leaf) for leaf in jax.tree.leaves(g)]
            if by_leaf:
                most = clip / np.sqrt(len(parts))
                total = jax.tree.map(
                    lambda a, b, most=most: a + b * min(1, most / max(np.linalg.norm(b), 1e-30)), total, g
                )
            else:
                factor = min(1, clip / np.linalg.norm(parts))
                total = jax.tree.map(lambda a, b, f=factor: a + b * f, total, g)
        found.append(total)
    return np.asarray(ravel(jax.tree.map(lambda *p: jnp.stack(p), *found))[0])


def held(clients, i):
    index = clients.inner.held
    first, size = int(index.first[i]), int(index.num_samples[i])
    return np.asarray(index.sample[first : first + size])


@pytest.mark.few(2)
@pytest.mark.parametrize("by_leaf", [False, True])
@pytest.mark.parametrize(("name", "batch_size"), [("linear", 0), ("linear", 6), ("cnn", 6)])
def test_clipped_gradients_are_those_of_one_sample_at_a_time(name, batch_size, by_leaf):
    clip = 0.4
    plain, task, clients, models = made(batch_size, clip, name=name, by_leaf=by_leaf)
    key = jax.random.key(3)
    if batch_size:
        batch, _ = poisson_sample(jax.random.fold_in(key, SAMPLING), clients.inner.held, batch_size, 40)
        samples_of = lambda i: np.asarray(batch.sample[i])[np.asarray(batch.mask[i])]  # noqa: E731
    else:
        samples_of = lambda i: held(clients, i)  # noqa: E731
    sums = one_at_a_time(plain, clients, models, samples_of, clip, by_leaf)
    sizes = np.asarray(clients.num_samples)
    mean_size = np.maximum(np.minimum(sizes, batch_size) if batch_size else sizes, 1)
    _, found = jax.jit(task.gradient)(task.data, clients, models, key)
    assert np.abs(sums).max() > 0.1
    np.testing.assert_allclose(ravel(found)[0], sums / mean_size[:, None], atol=1e-5)


def test_a_bound_that_no_gradient_reaches_and_no_noise_leave_the_gradients_as_they_are():
    plain, task, clients, models = made(clip=1e6)
    loss, found = task.gradient(task.data, clients, models, KEY)
    wanted = plain.gradient(plain.data, clients.inner, models, KEY)
    np.testing.assert_allclose(loss, wanted[0], rtol=1e-6)
    np.testing.assert_allclose(ravel(found)[0], ravel(wanted[1])[0], atol=1e-6)


@pytest.mark.long
def test_gradients_do_not_depend_on_the_tile():
    found = []
    for tiling in (Tiling(), Tiling(block_size=4, mapping="scan"), Tiling(mapping="vmap")):
        _, task, clients, models = made(6, 0.4, 0.7, tiling=tiling)
        found.append(np.asarray(ravel(task.gradient(task.data, clients, models, KEY)[1])[0]))
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    np.testing.assert_allclose(found[2], found[0], atol=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("batch_size", [0, 6])
def test_noise_has_its_deviation_once_a_step_and_is_another_one_for_each_key_and_client(batch_size):
    clip, noise = 0.5, 3.0
    _, task, clients, models = made(batch_size, clip, noise)
    _, silent, quiet, _ = made(batch_size, clip, 0.0)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(KEY, jnp.arange(60))

    def both(key):
        noised = task.gradient(task.data, clients, models, key)[1]
        return ravel(noised)[0] - ravel(silent.gradient(task.data, quiet, models, key)[1])[0]

    drawn = np.asarray(jax.jit(lambda keys: jax.lax.map(both, keys))(keys))
    sizes = np.asarray(clients.num_samples)
    wanted = noise * clip / (np.minimum(sizes, batch_size) if batch_size else sizes)
    scaled = drawn / wanted[:, None]
    assert np.abs(scaled.std(axis=(0, 2)) - 1).max() < 4 / np.sqrt(2 * scaled[:, 0].size)
    assert abs(scaled.mean()) < 4 / np.sqrt(scaled.size)
    flat = scaled.reshape(len(keys) * N, -1)
    assert np.abs(np.corrcoef(flat) - np.eye(len(flat))).max() < 0.75  # of some 50 numbers each; equal ones have 1


def test_who_does_not_compute_and_who_holds_too_few_samples_gets_neither_gradient_nor_noise():
    _, task, clients, models = made(6, 0.5, 2.0)
    least = int(np.sort(np.asarray(clients.num_samples))[1])
    clients = clients._replace(numbers=clients.numbers._replace(least=jnp.int32(least)))
    only = jnp.arange(N) != 2
    found = np.asarray(ravel(task.gradient(task.data, clients, models, KEY, only=only)[1])[0])
    takes = (np.asarray(clients.num_samples) >= least) & np.asarray(only)
    assert 0 < takes.sum() < N - 1
    np.testing.assert_array_equal((found != 0).any(axis=1), takes)


def test_a_gradient_that_is_not_finite_becomes_zero_and_a_huge_one_keeps_the_bound():
    for wild in (np.inf, np.nan, -np.inf):
        g = clipped({"a": jnp.array([1.0, wild]), "b": jnp.ones(3)}, 1.0)
        assert all((leaf == 0).all() for leaf in g.values())
    huge = clipped({"a": jnp.full(4, 1e15)}, 2.0)["a"]
    np.testing.assert_allclose(np.linalg.norm(huge), 2.0, rtol=1e-5)


def test_each_sample_is_drawn_by_itself_with_the_chance_that_the_account_counts():
    owner = np.repeat([0, 1, 2, -1, 1], [30, 3, 9, 4, 2])
    index = index_clients(jnp.asarray(owner), jnp.zeros(len(owner), int), 4, 1)
    draw = jax.jit(lambda key: poisson_sample(key, index, 6, 20))
    count, seen, sizes = 1500, np.zeros(len(owner)), np.zeros((1500, 4))
    for k in range(count):
        batch, sizes[k] = draw(jax.random.fold_in(KEY, k))
        chosen = np.asarray(batch.sample)[np.asarray(batch.mask)]
        assert len(set(chosen.tolist())) == len(chosen)
        for i in range(4):
            own = np.asarray(batch.sample[i])[np.asarray(batch.mask[i])]
            assert (owner[own] == i).all()
            assert len(own) == sizes[k, i]
        seen[chosen] += 1
    chance = np.where(owner < 0, 0, np.minimum(6 / np.array([30, 5, 9, 1])[owner], 1))
    assert np.abs(seen / count - chance).max() < 5 * np.sqrt(0.25 / count)
    np.testing.assert_allclose(sizes[:, 0].var(), 30 * 0.2 * 0.8, rtol=0.15)  # independent: a binomial number


def test_a_draw_above_the_largest_one_is_cut_and_the_default_is_never_reached():
    index = index_clients(jnp.zeros(50, int), jnp.zeros(50, int), 1, 1)
    batch, count = poisson_sample(KEY, index, 20, 3)
    assert count[0] > 3
    assert batch.mask.sum() == 3
    assert len(set(np.asarray(batch.sample[0]).tolist())) == 3
    assert largest_draw(16) < 80
