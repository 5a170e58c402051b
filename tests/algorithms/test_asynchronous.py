"""Algorithms without rounds: what gossipy computes, and laws; the reference has their queues of events."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from least_squares import Problem, graph, run

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.types import Links

N, ROUNDS, LR = 12, 60, 0.0625
ASYNCHRONOUS = [name for name in ALGORITHMS if ALGORITHMS[name](Settings()).asynchronous]
PLAIN = Settings(sgd(momentum=False))


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def worlds(name):
    """[R] graphs with their weights: contacts come and go, and for SWIFT, whose mailboxes need them, they stay."""
    rng, found = np.random.default_rng(3), []
    for _ in range(1 if name == "swift" else ROUNDS):
        pairs = [(i, j) for i in range(N) for j in range(i) if rng.random() < 0.3]
        adjacency, mix = graph(pairs, N)
        found.append((adjacency & (rng.random((N, N)) < 0.8) if name == "osgp" else adjacency, mix))
    return (found * ROUNDS)[:ROUNDS]


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_models_come_together_and_pairs_that_average_keep_the_mean(name):
    """Without steps: consensus, AD-PSGD's mean is that of the first models, and OSGP loses nothing on the way."""
    problem = Problem(N)
    links = [Links(jnp.asarray(a), jnp.asarray(m)) for a, m in worlds(name)]
    models, _, _, state = run(ALGORITHMS[name](PLAIN), numbers_of(name, lr=LR).replace(lr=0.0), problem, links)
    assert np.var(models[-1], axis=0).max() < 1e-3 * np.var(models[0], axis=0).max()
    if name == "adpsgd":
        np.testing.assert_allclose(models.mean(axis=1), models[:1].mean(axis=1).repeat(ROUNDS + 1, 0), atol=1e-12)
    if name == "osgp":
        assert float(jnp.sum(state.own.weight + state.weight)) == pytest.approx(N, abs=1e-9)
