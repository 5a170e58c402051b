"""D-PSGD over ragged full batches of a data set against the loop over samples, and the optimiser of each client."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from dealing import deal
from oracles import dpsgd as oracle
from small import toy_dataset, toy_hparams, toy_task

from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import LocalNumbers, Settings, sgd
from mdfl_jax.core.rng import stream
from mdfl_jax.core.types import Links
from mdfl_jax.networks.contact import disc
from mdfl_jax.tasks.gradients import Tiling
from tests.reference import mixing as oracle_mixing

N, ROUNDS = 7, 4


def softmax_gradient(weights, images, labels):
    """Gradient of the mean cross-entropy of a linear model [pixels + 1, C], bias in the last row, in float64."""
    x = np.concatenate([images.reshape(len(images), -1), np.ones((len(images), 1))], axis=1)
    logits = x @ weights
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    return x.T @ p / len(labels)


def run(algorithm, task, hparams, key, mixes):
    """The algorithm alone over given mixing matrices; the models after each round."""
    clients = task.partition(task.data, hparams.task, stream(key, "partition"))
    model = task.init(task.data, stream(key, "init"))
    state = algorithm.init(hparams.algorithm, jax.tree.map(lambda p: jnp.broadcast_to(p, (N, *p.shape)), model))
    gradient = lambda params, k: task.gradient(task.data, clients, params, k)  # noqa: E731
    step = jax.jit(lambda k, s, links: algorithm.round(hparams.algorithm, k, s, links, gradient))
    models = [algorithm.params(state)]
    for t, mix in enumerate(mixes):
        links = Links(jnp.asarray(mix > 0) & ~jnp.eye(N, dtype=bool), jnp.asarray(mix, jnp.float32))
        state, _ = step(jax.random.key(t), state, links)
        models.append(algorithm.params(state))
    return models


def random_mixes():
    places = np.random.default_rng(1).integers(0, 4, (ROUNDS, N, 2)).astype(np.float32)
    return [oracle_mixing.metropolis_hastings(np.asarray(disc(jnp.asarray(p), 1.5))) for p in places]


def test_full_batch_dpsgd_equals_the_oracle():
    """Very unequal clients, some empty: models equal to the loop over rounds, clients and samples."""
    momentum, weight_decay = 0.9, 0.01
    data, key = toy_dataset(), jax.random.key(5)
    task = toy_task(N, tiling=Tiling(block_size=4, tile=8), dataset=data)
    hparams = toy_hparams(alpha=0.05, lr=0.1, momentum=momentum, weight_decay=weight_decay)
    owner = np.asarray(deal("dirichlet", stream(key, "partition"), jnp.asarray(data.y_train), N, 3, alpha=0.05))
    assert (np.bincount(owner, minlength=N) == 0).any()
    mixes = random_mixes()
    models = run(dpsgd(Settings(sgd())), task, hparams, key, mixes)
    flat = [np.concatenate([m["Dense_0"]["kernel"], m["Dense_0"]["bias"][:, None]], axis=1) for m in models]
    images = (data.x_train.astype(np.float64) - data.x_train.mean()) / data.x_train.std()
    expected = oracle.full_batch_dpsgd(
        flat[0], images, data.y_train, owner, mixes, 0.1, momentum, weight_decay, softmax_gradient
    )
    for ours, theirs in zip(flat, expected):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_optimizer_state_is_of_one_client():
    """A rule that looks at the whole gradient (clipping by its norm) sees one client's, not everybody's."""

    def clipped(params: LocalNumbers):
        return optax.chain(optax.clip_by_global_norm(1e-3), optax.scale_by_learning_rate(params.lr))

    task = toy_task(N, partition="iid")
    models = run(dpsgd(Settings(clipped)), task, toy_hparams(lr=1.0), jax.random.key(0), [np.eye(N)])
    step = jax.tree.map(lambda a, b: (a - b).reshape(N, -1), models[0], models[1])
    norms = jnp.sqrt(sum((leaf**2).sum(axis=1) for leaf in jax.tree.leaves(step)))
    np.testing.assert_allclose(norms, 1e-3, rtol=1e-3)
