"""Algorithms without rounds: what gossipy computes, and laws; the reference has their queues of events."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from least_squares import Problem, graph, run
from oracles import gossipy_outputs

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


def test_with_works_of_one_round_osgp_is_sgp():
    problem, links = Problem(N), worlds("osgp")
    numbers = {"sgp": numbers_of("sgp", lr=LR), "osgp": numbers_of("osgp", lr=LR, least_weight=0.0)}
    found = [run(ALGORITHMS[name](PLAIN), own, problem, links)[:2] for name, own in numbers.items()]
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-9)
    np.testing.assert_array_equal(found[0][1], found[1][1])


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


def test_pushes_are_those_of_gossipy():
    """Its simulator has been run with the same senders and receivers; it is a step ahead (gossipy_outputs.py)."""
    given = np.load(gossipy_outputs.FILE)
    problem = Problem(N)
    problem.a, problem.b, problem.start = given["a"], given["b"], given["start"]
    pairs = [[(i, j) for i, j in enumerate(slot) if i < j] for slot in given["partners"]]
    links = [Links(*map(jnp.asarray, graph(edges, N)), finishes=jnp.ones(N, bool)) for edges in pairs]
    models = run(ALGORITHMS["push"](PLAIN), numbers_of("push", lr=gossipy_outputs.LR), problem, links)[0]
    ahead = [[x - gossipy_outputs.LR * problem.gradient_of(i, x) for i, x in enumerate(slot)] for slot in models]
    np.testing.assert_allclose(ahead, given["models"], rtol=1e-9)
    assert np.ptp(given["models"][-1], axis=0).max() > 0.01  # they have not all met
