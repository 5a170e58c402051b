"""Changes of the gradient of each sample, and sums over samples in place of means, against loops over the samples."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import Normalised, assert_trees_equal, toy_dataset, toy_hparams, toy_task

import mdfl_jax
from mdfl_jax import Hparams, Schedule, UserError, simulate
from mdfl_jax.algorithms import LocalNumbers, dpsgd
from mdfl_jax.algorithms.local import with_per_sample
from mdfl_jax.core.numbers import number
from mdfl_jax.core.trees import STATISTICS
from mdfl_jax.data.batching import draw_minibatch
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.tasks import classification, summed
from mdfl_jax.tasks.gradients import Tiling
from mdfl_jax.tasks.regression import LinearNumbers, regression

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


@pytest.mark.few(2)
@pytest.mark.parametrize(("batch_size", "mapping"), [(0, "chunk"), (7, "chunk"), (7, "scan"), (0, "vmap")])
def test_clipped_gradients_of_samples(batch_size, mapping):
    dataset = toy_dataset(num_train=30)
    task = toy_task(N, batch_size=batch_size, tiling=Tiling(4, 0, mapping), dataset=dataset, partition="iid")
    clients = jax.jit(task.partition)(task.data, toy_hparams().task, jax.random.key(2))
    params = models(task)
    gradient = jax.jit(lambda change: task.gradient(task.data, clients, params, KEY, change), static_argnums=0)
    loss, found = gradient(clip)
    plain_loss, plain = gradient(None)
    same = gradient(lambda gradient: gradient)[1]
    np.testing.assert_allclose(loss, plain_loss, rtol=1e-5)
    assert_trees_equal(same, plain, 2e-5)
    assert_trees_equal(found, looped(task, clients, params, batch_size), 2e-5)
    more = lambda gradient: jax.tree.map(lambda leaf: leaf + 1, gradient)  # noqa: E731 -- padding is no sample
    moved = gradient(more)[1]
    assert_trees_equal(moved, jax.tree.map(lambda leaf: leaf + 1, plain), 2e-5)
    in_sum = jax.jit(lambda: summed(task, batch_size).gradient(task.data, clients, params, KEY, per_sample=clip)[1])()
    counts = batch_size or np.asarray(clients.num_samples)[:, None]
    np.testing.assert_allclose(in_sum["Dense_0"]["bias"], found["Dense_0"]["bias"] * counts, rtol=1e-5)


def test_clipped_gradients_of_a_regression():
    task = regression("linear", N, 5, 6)
    clients = jax.jit(task.partition)(None, LinearNumbers(l2=0.1).typed(), jax.random.key(0))
    params = {"w": models(task)["w"]}
    found = jax.jit(lambda: task.gradient(None, clients, params, KEY, clip)[1]["w"])()
    features, targets = (np.asarray(x) for x in clients.train)
    for i in range(N):
        w = np.asarray(params["w"][i])
        each = [(a @ w - b) * a for a, b in zip(features[i], targets[i])]
        expected = np.mean([g * min(1, 0.5 / np.linalg.norm(g)) for g in each], axis=0) + 0.1 * w
        np.testing.assert_allclose(found[i], expected, rtol=1e-4, atol=1e-6)


class ClippedNumbers(LocalNumbers):
    most: float = number(1.0, "largest norm of the gradient of a sample", above=0)


def test_an_algorithm_whose_clients_clip():
    """The norm is a traced number of the algorithm; with a large one it is the plain algorithm."""
    clipped = with_per_sample(dpsgd(), lambda hparams, gradient: clip(gradient, hparams.most))
    run = jax.jit(simulate(toy_task(N, batch_size=5), fixed_graph(N, "ring"), clipped, Schedule(4, 2)))
    plain = jax.jit(simulate(toy_task(N, batch_size=5), fixed_graph(N, "ring"), dpsgd(), Schedule(4, 2)))
    hparams = lambda most: Hparams(toy_hparams().task, GraphParams(), ClippedNumbers(most=most).typed())  # noqa: E731
    far, near = (np.asarray(run(hparams(most), KEY).loss) for most in (1e6, 1e-3))
    np.testing.assert_allclose(far, plain(hparams(1.0), KEY).loss, rtol=1e-4)
    assert np.abs(near[-1] - near[0]).max() < 0.1 * np.abs(far[-1] - far[0]).max()


def test_batch_statistics_have_no_single_samples():
    task = classification(toy_dataset(), Normalised(), N)
    clients = jax.eval_shape(task.partition, task.data, toy_hparams().task, jax.random.key(2))
    one = jax.eval_shape(task.init, task.data, KEY)
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((N, *x.shape), x.dtype), one)
    with pytest.raises(UserError, match="batch statistics has no gradients of single samples"):
        jax.eval_shape(lambda clients, params: task.gradient(task.data, clients, params, KEY, clip), clients, shapes)


def test_a_change_of_shapes_is_refused():
    task = toy_task(N)
    clients = jax.jit(task.partition)(task.data, toy_hparams().task, jax.random.key(2))
    scalars = lambda params: task.gradient(task.data, clients, params, KEY, partial(jax.tree.map, jnp.sum))  # noqa: E731
    with pytest.raises(UserError, match="it must be"):
        jax.eval_shape(scalars, models(task))


def test_a_batch_is_summed_its_loss_is_a_mean_and_statistics_keep_their_step():
    """Of minibatches of eight, and of a network with batch statistics; of whole batches by each client's samples."""
    small = classification(toy_dataset(), Normalised(), N, batch_size=8)
    for task, batch_size in ((small, 8), (toy_task(N), 0)):
        clients = jax.jit(task.partition)(task.data, toy_hparams(alpha=1.0).task, KEY)
        ours = models(task)
        (loss, mean), (same_loss, total) = (
            jax.jit(of.gradient)(task.data, clients, ours, KEY) for of in (task, summed(task, batch_size))
        )
        np.testing.assert_array_equal(loss, same_loss)
        if batch_size:
            assert_trees_equal(total[STATISTICS], mean[STATISTICS])
            total, mean = total["params"], mean["params"]
        counts = batch_size or clients.num_samples
        for summed_up, of_sample in zip(jax.tree.leaves(total), jax.tree.leaves(mean), strict=True):
            np.testing.assert_allclose(summed_up.T, counts * of_sample.T, rtol=1e-5, atol=1e-6)


@pytest.mark.long
def test_a_study_takes_sums_by_a_setting():
    """Sums over minibatches of 4 do what means do with four times the learning rate, and not what means do."""
    setting = {"seeds": 1, "rounds": 2, "eval_every": 2, "data.limit_train": 120, "data.limit_test": 60}
    setting |= {"model.name": "linear", "network.num_clients": 4, "network.num_mobile": 1, "algorithm.batch_size": 4}
    sweep = "algorithm.gradient+algorithm.lr=sum+0.01,mean+0.04,mean+0.01"
    losses = mdfl_jax.run(setting | {"sweep": sweep}, progress=False)
    by_sum, four_times, plain = (losses.array("loss", p)[0, -1] for p in losses.points)
    np.testing.assert_allclose(by_sum, four_times, rtol=1e-5)
    assert (np.abs(by_sum - plain) > 1e-3).all()
