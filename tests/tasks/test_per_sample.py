"""Changes of the gradient of each sample, and sums over samples in place of means, against loops over the samples."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import Normalised, assert_trees_equal, toy_dataset, toy_hparams, toy_task

from mdfl_jax import UserError
from mdfl_jax.core.trees import STATISTICS
from mdfl_jax.data.batching import draw_minibatch
from mdfl_jax.tasks import classification, summed
from mdfl_jax.tasks.gradients import Tiling

N, KEY = 4, jax.random.key(3)


def clip(gradient, most=0.5):
    """The gradient, shortened to the Euclidean norm ``most``."""
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(gradient)))
    return jax.tree.map(lambda leaf: leaf * jnp.minimum(1, most / norm).astype(leaf.dtype), gradient)


def models(task, seed=1):
    """Random models of N clients."""
    one = jax.jit(task.init)(task.data, jax.random.key(0))
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=(N, *x.shape)), x.dtype), one)


def looped(task, clients, params, batch_size):
    """The mean of the clipped gradients of a client's samples, one sample after another."""
    data = task.data
    x_train, labels = np.asarray(data.x_train, np.float32), np.asarray(data.y_train)
    if data.mean is not None:
        x_train = (x_train - np.asarray(data.mean)) / np.asarray(data.std)

    def loss(model, k):
        logits = x_train[k].reshape(-1) @ model["Dense_0"]["kernel"] + model["Dense_0"]["bias"]
        return -jax.nn.log_softmax(logits)[labels[k]]

    def of_client(i):
        first, count = int(clients.held.first[i]), int(clients.num_samples[i])
        mine = np.asarray(clients.held.sample)[first : first + count]
        if batch_size:
            mine = np.asarray(draw_minibatch(jax.random.fold_in(KEY, i), clients.held, i, batch_size))
        model = jax.tree.map(lambda x: x[i], params)
        found = [clip(jax.grad(loss)(model, k)) for k in mine]
        return jax.tree.map(lambda *g: sum(g) / len(mine), *found)

    return jax.tree.map(lambda *rows: jnp.stack(rows), *map(of_client, range(N)))


@pytest.mark.parametrize(("batch_size", "mapping"), [(0, "chunk"), (7, "scan")])
def test_clipped_gradients_of_samples(batch_size, mapping):
    dataset = toy_dataset(num_train=30)
    task = toy_task(N, batch_size=batch_size, tiling=Tiling(4, 0, mapping), dataset=dataset, partition="iid")
    clients = jax.jit(task.partition)(task.data, toy_hparams().task, jax.random.key(2))
    params = models(task)
    gradient = jax.jit(lambda change: task.gradient(task.data, clients, params, KEY, change), static_argnums=0)
    loss, found = gradient(clip)
    plain_loss, plain = gradient(None)
    np.testing.assert_allclose(loss, plain_loss, rtol=1e-5)
    assert_trees_equal(found, looped(task, clients, params, batch_size), 2e-5)
    more = lambda gradient: jax.tree.map(lambda leaf: leaf + 1, gradient)  # noqa: E731 -- padding is no sample
    moved = gradient(more)[1]
    assert_trees_equal(moved, jax.tree.map(lambda leaf: leaf + 1, plain), 2e-5)
    in_sum = jax.jit(lambda: summed(task, batch_size).gradient(task.data, clients, params, KEY, per_sample=clip)[1])()
    counts = batch_size or np.asarray(clients.num_samples)[:, None]
    np.testing.assert_allclose(in_sum["Dense_0"]["bias"], found["Dense_0"]["bias"] * counts, rtol=1e-5)


def test_what_has_no_gradients_of_samples_is_told():
    for task, change, says in (
        (classification(toy_dataset(), Normalised(), N), clip, "batch statistics has no gradients of single samples"),
        (toy_task(N), partial(jax.tree.map, jnp.sum), "it must be"),  # of another shape
    ):
        clients = jax.jit(task.partition)(task.data, toy_hparams().task, jax.random.key(2))
        gradient = partial(task.gradient, task.data, clients, key=KEY, per_sample=change)
        with pytest.raises(UserError, match=says):
            jax.eval_shape(gradient, models(task))


def test_a_batch_is_summed_its_loss_is_a_mean_and_statistics_keep_their_step():
    task = classification(toy_dataset(), Normalised(), N, batch_size=8)
    clients, ours = jax.jit(task.partition)(task.data, toy_hparams(alpha=1.0).task, KEY), models(task)
    (loss, mean), (same_loss, total) = (
        jax.jit(of.gradient)(task.data, clients, ours, KEY) for of in (task, summed(task, 8))
    )
    np.testing.assert_array_equal(loss, same_loss)
    assert_trees_equal(total[STATISTICS], mean[STATISTICS])
    assert_trees_equal(total["params"], jax.tree.map(lambda leaf: 8 * leaf, mean["params"]), 1e-5)
