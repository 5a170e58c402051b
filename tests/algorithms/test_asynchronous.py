"""Algorithms without rounds against queues of events: models, messages and lateness of twelve clients with clocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from least_squares import Problem, graph, run
from oracles import events, gossipy_outputs

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.types import Links

N, ROUNDS, LR = 12, 60, 0.0625
SLOTS = np.array([1, 1, 2, 3, 4, 1, 5, 7, 2, 3, 1, 16])
ORACLES = {
    "adpsgd": events.ADPSGD,
    "push": events.Push,
    "push_pull": events.PushPull,
    "osgp": events.OSGP,
    "swift": events.SWIFT,
}
PLAIN = Settings(sgd(momentum=False))


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def worlds(name, directed=False):
    """[R] graphs with their weights: contacts come and go, and for SWIFT, whose mailboxes need them, they stay."""
    rng, found = np.random.default_rng(3), []
    for _ in range(1 if name == "swift" else ROUNDS):
        pairs = [(i, j) for i in range(N) for j in range(i) if rng.random() < 0.3]
        adjacency, mix = graph(pairs, N)
        found.append((adjacency & (rng.random((N, N)) < 0.8) if name == "osgp" else adjacency, mix))
    return (found * ROUNDS)[:ROUNDS]


def moments():
    """When pairs meet in each slot, by the draws of the algorithm; the earliest has the largest number."""
    drawn = [np.asarray(jax.random.uniform(own_draws(jax.random.key(t)), (N, N))) for t in range(ROUNDS)]
    return [-np.where(np.tri(N, k=-1, dtype=bool), u.T, u) for u in drawn]


def test_every_asynchronous_algorithm_has_its_queue():
    assert {name for name in ALGORITHMS if ALGORITHMS[name](Settings()).asynchronous} == {*ORACLES}


def played(name, slots, problem):
    """The models, messages and lateness of an algorithm, and of its queue of events."""
    links = worlds(name)
    ends = (np.arange(1, ROUNDS + 1)[:, None] % slots) == 0
    given = [Links(jnp.asarray(a), jnp.asarray(m), finishes=jnp.asarray(e)) for (a, m), e in zip(links, ends)]
    numbers = numbers_of(name, lr=LR)
    models, messages, _, state, late = run(ALGORITHMS[name](PLAIN), numbers, problem, given, details=True)
    graphs = [a for a, _ in links]
    more = [links[0][1]] if name == "swift" else [moments()] if issubclass(ORACLES[name], events.Pairs) else []
    oracle = ORACLES[name](problem.start, problem.gradient_of, LR, graphs, slots, *more)
    return models, messages, np.where(ends, late, 0), state, oracle, oracle.run()


@pytest.mark.parametrize("name", ORACLES)
def test_it_does_what_its_queue_of_events_does(name):
    problem = Problem(N)
    models, messages, late, state, oracle, expected = played(name, SLOTS, problem)
    np.testing.assert_allclose(models, expected, atol=1e-6)
    np.testing.assert_array_equal(messages, oracle.sent)
    found = np.zeros((ROUNDS, N))
    for t, i, value in oracle.late:
        found[t, i] = value
    np.testing.assert_allclose(late, found, atol=1e-6)
    assert found.max() > 3
    moved = np.abs(np.diff(models, axis=0)).max(axis=2) > 0
    assert (moved.sum(axis=0) >= ROUNDS // SLOTS).all()
    if name == "osgp":  # nothing is lost on the way
        assert float(jnp.sum(state.own.weight + state.weight)) == pytest.approx(N, abs=1e-9)


def test_with_works_of_one_round_osgp_is_sgp():
    problem, links = Problem(N), worlds("osgp")
    numbers = {"sgp": numbers_of("sgp", lr=LR), "osgp": numbers_of("osgp", lr=LR, least_weight=0.0)}
    found = [run(ALGORITHMS[name](PLAIN), own, problem, links)[:2] for name, own in numbers.items()]
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-9)
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("name", ORACLES)
def test_models_come_together_and_pairs_that_average_keep_the_mean(name):
    """Without steps: consensus, and AD-PSGD's mean is that of the first models."""
    problem = Problem(N)
    links = [Links(jnp.asarray(a), jnp.asarray(m)) for a, m in worlds(name)]
    models = run(ALGORITHMS[name](PLAIN), numbers_of(name, lr=LR).replace(lr=0.0), problem, links)[0]
    assert np.var(models[-1], axis=0).max() < 1e-3 * np.var(models[0], axis=0).max()
    if name == "adpsgd":
        np.testing.assert_allclose(models.mean(axis=1), models[:1].mean(axis=1).repeat(ROUNDS + 1, 0), atol=1e-12)


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
