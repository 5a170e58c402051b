"""Batch statistics as model state: they follow the batches, and travel, mix or stay as they are told to."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import Normalised, assert_trees_equal, toy_dataset

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, adam, sgd
from mdfl_jax.algorithms.registry import ignored_by, numbers_of, resolved
from mdfl_jax.core.trees import trained
from mdfl_jax.core.types import Links, Meetings, RoundContext
from mdfl_jax.data.partition import DirichletNumbers
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.gradients import Tiling

N, RATE = 4, 0.1
KEY = jax.random.key(0)
RING = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]], bool)
MIX = np.where(RING, 1 / 3, np.eye(4) / 3).astype(np.float32)


def start(task, alpha=1.0):
    """Clients, and models that differ between them."""
    clients = jax.jit(task.partition)(task.data, DirichletNumbers(alpha), jax.random.key(4))
    model = task.init(task.data, KEY)
    rng = np.random.default_rng(0)
    return clients, jax.tree.map(lambda p: p + jnp.asarray(rng.uniform(0, 0.5, (N, *p.shape)), jnp.float32), model)


def gradient_of(task, clients):
    return lambda params, key: task.gradient(task.data, clients, params, key)


def batch_statistics(task, clients, i):
    """Mean and unbiased variance of the four channels over all that client i holds."""
    held = clients.held
    first, count = int(held.first[i]), int(held.num_samples[i])
    x = np.asarray(task.data.x_train)[np.asarray(held.sample)[first : first + count]].astype(np.float64)
    x = ((x - np.asarray(task.data.mean)) / np.asarray(task.data.std)).reshape(count, 4, -1)
    mean, var = x.mean(axis=(0, 2)), x.var(axis=(0, 2))
    pixels = count * x.shape[2]
    return mean, var * pixels / (pixels - 1)


def running(params):
    return jax.tree.map(np.asarray, params["batch_stats"]["norm"])


def moved(task, clients, params):
    """The running statistics after one step each, from the definition: [N, 4] by name."""
    before = running(params)
    of_batch = [batch_statistics(task, clients, i) for i in range(N)]
    return {
        "mean": (1 - RATE) * before["mean"] + RATE * np.stack([m for m, _ in of_batch]),
        "var": (1 - RATE) * before["var"] + RATE * np.stack([v for _, v in of_batch]),
    }


# A block holds all of a client's samples.
WHOLE = classification(toy_dataset(), Normalised(), N, "dirichlet", tiling=Tiling(block_size=90))


def round_of(name, local=False, optimizer=sgd(), **numbers):
    """One round of an algorithm by hand: (models after it, stats, models before it, clients)."""
    clients, before = start(WHOLE)
    algorithm = ALGORITHMS[name](Settings(optimizer, local_statistics=local))
    hparams = numbers_of(name, **{"lr": 0.05, "weight_decay": 0.3, **numbers})
    links, state = Links(jnp.asarray(RING), jnp.asarray(MIX)), algorithm.init(hparams, before)
    context = RoundContext(KEY, gradient_of(WHOLE, clients))
    round_ = jax.jit(lambda state: algorithm.round(hparams, state, links, context))
    state, stats = round_(state)
    return algorithm.params(state), stats, before, clients


def test_statistics_follow_the_batches_like_a_running_mean_and_are_mixed_or_stay():
    """No learning rate, decay, momentum, moment or perturbation comes between; those that stay are not sent."""
    after, _, before, clients = round_of("dfedsam", rho=5.0)  # they see the batch at the model itself
    for kind, value in moved(WHOLE, clients, before).items():
        np.testing.assert_allclose(running(after)[kind], MIX @ value, rtol=2e-5)
    after, stats, before, clients = round_of("dpsgd", local=True, optimizer=adam(), momentum=0.9)
    mixed, sent, *_ = round_of("dpsgd", optimizer=adam(), momentum=0.9)
    for kind, value in moved(WHOLE, clients, before).items():
        np.testing.assert_allclose(running(after)[kind], value, rtol=2e-5)
        np.testing.assert_allclose(running(mixed)[kind], MIX @ value, rtol=2e-5)
    assert_trees_equal(trained(after), trained(mixed))
    np.testing.assert_array_equal(stats.messages, sent.messages)
    np.testing.assert_array_equal(sent.bits.low - stats.bits.low, 2 * 8 * 32)  # two messages, eight numbers each
    chex.assert_tree_all_finite(round_of("nids", lr=0.0)[0])  # a step of zero divides the statistics' gradient


RECURSIONS = [n for n in ALGORITHMS if "statistics" in ignored_by(n) and not ALGORITHMS[n](Settings()).global_model]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", RECURSIONS)
def test_recursions_bring_everybodys_statistics_to_the_mean_of_the_batches(name):
    """What is learnt of the data is frozen by a gradient of zero; the statistics go on, and end where they should."""
    clients, before = start(WHOLE)
    algorithm = ALGORITHMS[name](
        Settings(schedule=lambda k: jnp.maximum(0.99**k, 0.1))
    )  # which must not slow them down
    hparams = resolved(name, "", {"lr": 0.05, "transmission": 1.0, "trigger": 0.0, "eta": 1e-3})
    links = Links(jnp.asarray(RING), jnp.asarray(MIX))
    target = dict(zip(("mean", "var"), np.moveaxis([batch_statistics(WHOLE, clients, i) for i in range(N)], 1, 0)))
    target = jax.tree.map(lambda t: jnp.asarray(t, jnp.float32), target)

    def gradient(params, key, whole=False):
        pull = jax.tree.map(lambda s, t: RATE * (s - t), params["batch_stats"]["norm"], target)
        still = jax.tree.map(jnp.zeros_like, params["params"])
        return jnp.zeros(N), {"params": still, "batch_stats": {"norm": pull}}

    def body(state, key):
        state = algorithm.round(hparams, state, links, RoundContext(key, gradient))[0]
        return state, algorithm.params(state)["batch_stats"]["norm"]["var"].min()

    run = jax.jit(lambda s: jax.lax.scan(body, s, jax.random.split(KEY, 400)))
    state, least = run(algorithm.init(hparams, before))
    assert float(least.min()) > 0  # no momentum swings them past the batches'
    mean_of_clients = jax.tree.map(lambda s: s.mean(axis=0), running(algorithm.params(state)))
    for kind, value in target.items():
        np.testing.assert_allclose(mean_of_clients[kind], value.mean(axis=0), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("name", ["fedmobile", "server_fedavg"])
def test_a_server_met_now_and_then_has_statistics_between_those_of_its_clients(name):
    """Sums of what they moved by would overshoot when meetings are far apart: variances must never be negative."""
    _, before = start(WHOLE)
    same = jax.tree.map(lambda p: jnp.broadcast_to(p[:1], p.shape), before)
    algorithm, hparams = ALGORITHMS[name](Settings()), numbers_of(name, lr=0.05)
    small = jax.tree.map(lambda s: jnp.full_like(s, 0.1), same["batch_stats"])
    me, interval = jnp.arange(N), 20

    def gradient(params, key):
        pull = jax.tree.map(lambda s, t: RATE * (s - t), params["batch_stats"], small)
        return jnp.zeros(N), {"params": jax.tree.map(jnp.zeros_like, params["params"]), "batch_stats": pull}

    def body(state, t):
        last = t - (t - 5 * me) % interval
        partner = jnp.where(t % 2 == 0, jnp.array([1, 0, 3, 2]), jnp.array([3, 2, 1, 0]))
        meeting = me[:, None] == partner
        links = Links(meeting, jnp.eye(N), partner=partner, server=Meetings(last == t, last, last + interval))
        state = algorithm.round(hparams, state, links, RoundContext(KEY, gradient))[0]
        return state, (algorithm.global_model(state)["batch_stats"], algorithm.params(state)["batch_stats"])

    run = jax.jit(lambda s: jax.lax.scan(body, s, jnp.arange(400, dtype=jnp.int32)))
    _, (server, clients) = run(algorithm.init(hparams, same))
    for leaf, of_clients, first in zip(*map(jax.tree.leaves, (server, clients, same["batch_stats"]))):
        low, high = min(0.1, float(first.min())) - 1e-5, max(0.1, float(first.max())) + 1e-5
        assert low <= float(leaf.min()) <= float(leaf.max()) <= high
        assert low <= float(of_clients.min()) <= float(of_clients.max()) <= high
        np.testing.assert_allclose(leaf[-1], 0.1, atol=0.03)
