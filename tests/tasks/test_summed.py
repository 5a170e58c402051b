"""Gradients that are sums over samples: the thesis's algorithm 1 against means, and against a loop over samples."""

import jax
import numpy as np
import pytest
from small import toy_dataset, toy_hparams, toy_task

import mdfl_jax
from mdfl_jax.config import default_config
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.batch_statistics import STATISTICS
from mdfl_jax.core.errors import UserError
from mdfl_jax.tasks.task import summed

KEY = jax.random.key(3)


def gradients(task, seed=0):
    """The losses and gradients of different models of all clients, with the data that they hold."""
    clients = task.partition(task.data, toy_hparams(alpha=1.0).task, KEY)
    models = jax.vmap(lambda k: task.init(task.data, k))(jax.random.split(jax.random.key(seed), task.num_clients))
    return models, clients, jax.jit(task.gradient)(task.data, clients, models, KEY)


def by_samples(task, models, clients):
    """Sums over each client's samples of x (softmax(W x + b) - e_y), sample by sample in float64."""
    data, owner = toy_dataset(), np.asarray(task.owner(task.data, toy_hparams(alpha=1.0).task, KEY))
    x = (data.x_train.astype(float) - np.asarray(task.data.mean)) / np.asarray(task.data.std)
    kernel, bias = (np.asarray(models["Dense_0"][name], float) for name in ("kernel", "bias"))
    found = np.zeros_like(kernel)
    for sample, client in enumerate(owner):
        logits = x[sample].ravel() @ kernel[client] + bias[client]
        share = np.exp(logits - logits.max())
        error = share / share.sum() - np.eye(data.num_classes)[data.y_train[sample]]
        found[client] += np.outer(x[sample].ravel(), error)
    assert len(set(np.bincount(owner))) > 1  # the clients hold unequal numbers of samples
    return found


def test_full_batch_gradients_are_sums_over_the_samples_of_each_client():
    task = summed(toy_task(4), 0)
    models, clients, (_, found) = gradients(task)
    np.testing.assert_allclose(found["Dense_0"]["kernel"], by_samples(task, models, clients), rtol=1e-4, atol=1e-4)


def test_a_minibatch_is_summed_and_its_loss_is_a_mean():
    plain = toy_task(4, batch_size=8)
    _, _, (loss, mean) = gradients(plain)
    _, _, (same_loss, total) = gradients(summed(plain, 8))
    np.testing.assert_array_equal(loss, same_loss)
    jax.tree.map(lambda t, m: np.testing.assert_array_equal(t, 8 * m), total, mean)


@pytest.mark.long
def test_batch_statistics_keep_their_step():
    plain = toy_task(2, model="resnet20", batch_size=4, dataset=toy_dataset(side=8), base_width=4)
    (_, mean), (_, total) = (gradients(task)[2] for task in (plain, summed(plain, 4)))
    jax.tree.map(np.testing.assert_array_equal, total[STATISTICS], mean[STATISTICS])
    jax.tree.map(lambda t, m: np.testing.assert_array_equal(t, 4 * m), total["params"], mean["params"])


def test_another_gradient_is_refused():
    config = default_config()
    config.algorithm.gradient = "median"
    with pytest.raises(UserError, match=r"algorithm.gradient: unknown gradient 'median'.*; known: mean, sum"):
        resolve(config)


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
