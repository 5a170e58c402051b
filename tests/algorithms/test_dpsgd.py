"""D-PSGD over ragged full batches against the NumPy loop, and what its options must leave unchanged."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from dealing import deal
from oracles import dpsgd as oracle
from oracles import mixing as oracle_mixing
from small import assert_trees_equal, toy_dataset, toy_hparams, toy_task

from mdfl_jax.algorithms.dpsgd import dpsgd, local_only
from mdfl_jax.algorithms.local import LocalNumbers, Settings, sgd
from mdfl_jax.core.message_bits import total_bits, words
from mdfl_jax.core.rng import stream
from mdfl_jax.core.types import Links
from mdfl_jax.networks.contact import disc
from mdfl_jax.tasks.gradients import Tiling

COMPILE_FULLY = True


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
    models, losses = [algorithm.params(state)], []
    for t, mix in enumerate(mixes):
        links = Links(jnp.asarray(mix > 0) & ~jnp.eye(N, dtype=bool), jnp.asarray(mix, jnp.float32))
        state, stats = step(jax.random.key(t), state, links)
        models.append(algorithm.params(state))
        losses.append(stats)
    return models, losses


def random_mixes():
    places = np.random.default_rng(1).integers(0, 4, (ROUNDS, N, 2)).astype(np.float32)
    return [oracle_mixing.metropolis_hastings(np.asarray(disc(jnp.asarray(p), 1.5))) for p in places]


@pytest.mark.long
@pytest.mark.parametrize(
    "tiling", [Tiling(), Tiling(block_size=4, tile=8), Tiling(block_size=64), Tiling(block_size=3, tile=3)]
)
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.9, 0.01)])
def test_full_batch_dpsgd_equals_the_oracle(tiling, momentum, weight_decay):
    """Very unequal clients, some empty: models equal to the loop over rounds, clients and samples."""
    data, key = toy_dataset(), jax.random.key(5)
    task = toy_task(N, tiling=tiling, dataset=data)
    hparams = toy_hparams(alpha=0.05, lr=0.1, momentum=momentum, weight_decay=weight_decay)
    owner = np.asarray(deal("dirichlet", stream(key, "partition"), jnp.asarray(data.y_train), N, 3, alpha=0.05))
    assert (np.bincount(owner, minlength=N) == 0).any()
    mixes = random_mixes()
    models, _ = run(dpsgd(Settings(sgd(momentum=momentum > 0))), task, hparams, key, mixes)
    flat = [np.concatenate([m["Dense_0"]["kernel"], m["Dense_0"]["bias"][:, None]], axis=1) for m in models]
    images = (data.x_train.astype(np.float64) - data.x_train.mean()) / data.x_train.std()
    expected = oracle.full_batch_dpsgd(
        flat[0], images, data.y_train, owner, mixes, 0.1, momentum, weight_decay, softmax_gradient
    )
    for ours, theirs in zip(flat, expected):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_local_only_ignores_the_network_and_counts_no_message():
    task, hparams, key = toy_task(N), toy_hparams(), jax.random.key(0)
    alone, stats = run(local_only(), task, hparams, key, random_mixes())
    unmixed, _ = run(dpsgd(), task, hparams, key, [np.eye(N)] * ROUNDS)
    assert_trees_equal(alone, unmixed, 1e-6)
    assert all(int(s.messages.sum()) == 0 for s in stats)


def test_messages_count_directed_links():
    mixes = random_mixes()
    _, stats = run(dpsgd(), toy_task(N), toy_hparams(), jax.random.key(0), mixes)
    for mix, s in zip(mixes, stats):
        assert s.messages.tolist() == ((mix > 0).sum(axis=0) - 1).tolist()
        assert total_bits(words(s.bits)).tolist() == [32 * (17 * 3) * m for m in s.messages.tolist()]
    assert dpsgd().double_bits(None, 1000) == 64_000


def test_local_steps_are_rounds_without_mixing():
    task, hparams, key = toy_task(N), toy_hparams(momentum=0.5), jax.random.key(0)
    mixes = random_mixes()
    in_one, _ = run(dpsgd(Settings(num_local_steps=3)), task, hparams, key, mixes[:1])
    one_by_one, _ = run(dpsgd(), task, hparams, key, [np.eye(N), np.eye(N), mixes[0]])
    assert_trees_equal(in_one[-1], one_by_one[-1], 1e-6)


def test_optimizer_state_is_of_one_client():
    """A rule that looks at the whole gradient (clipping by its norm) sees one client's, not everybody's."""

    def clipped(params: LocalNumbers):
        return optax.chain(optax.clip_by_global_norm(1e-3), optax.scale_by_learning_rate(params.lr))

    models, _ = run(
        dpsgd(Settings(clipped)), toy_task(N, partition="iid"), toy_hparams(lr=1.0), jax.random.key(0), [np.eye(N)]
    )
    step = jax.tree.map(lambda a, b: (a - b).reshape(N, -1), models[0], models[1])
    norms = jnp.sqrt(sum((leaf**2).sum(axis=1) for leaf in jax.tree.leaves(step)))
    np.testing.assert_allclose(norms, 1e-3, rtol=1e-3)


def test_learning_rate_schedule_counts_local_steps():
    """Factors 1, 1/2, 1/4 of a halving schedule: the sum of plain steps scaled so, on a constant gradient."""
    halving = dpsgd(Settings(sgd(optax.exponential_decay(1.0, 1, 0.5), momentum=False), num_local_steps=3))
    state = halving.init(LocalNumbers(lr=1.0), {"w": jnp.zeros((2, 1))})
    links = Links(jnp.zeros((2, 2), bool), jnp.eye(2))
    constant = lambda params, key: (jnp.zeros(2), {"w": jnp.ones((2, 1))})  # noqa: E731
    state, _ = halving.round(LocalNumbers(lr=1.0), jax.random.key(0), state, links, constant)
    assert state.params["w"].ravel().tolist() == [-1.75, -1.75]
