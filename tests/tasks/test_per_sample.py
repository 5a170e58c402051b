"""Sums over samples in place of means, and tasks without gradients of samples; clipping: tests/contrib/privacy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import Normalised, assert_trees_equal, toy_dataset, toy_hparams, toy_task

from mdfl_jax import UserError
from mdfl_jax.core.trees import STATISTICS
from mdfl_jax.tasks import classification, summed

N, KEY = 4, jax.random.key(3)


def models(task, seed=1):
    """Random models of N clients."""
    one = jax.jit(task.init)(task.data, jax.random.key(0))
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=(N, *x.shape)), x.dtype), one)


def test_what_has_no_gradients_of_samples_is_told():
    for task, change, says in (
        (
            classification(toy_dataset(), Normalised(), N),
            jax.tree.leaves,
            "batch statistics has no gradients of single samples",
        ),
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
