"""Epidemic learning: local against its loop, and the graphs that the oracle of all draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from least_squares import Problem, graph, run
from oracles import rivals as oracle

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.rng import own_draws
from mdfl_jax.exchange.peers import random_receivers, random_regular_part

BITS = 64 * 6  # six coordinates in double precision
LR = 0.125  # exact in single precision, in which an optimiser has it
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["epidemic", "epidemic_oracle"])
@pytest.mark.parametrize("where", ["complete", "small graph"])
def test_epidemic_equals_the_loop(name, where):
    problem = Problem()
    adjacency = ~np.eye(5, dtype=bool) if where == "complete" else graph()[0]
    hparams = numbers_of(name, lr=LR, num_peers=2)
    draw = {"epidemic": random_receivers, "epidemic_oracle": random_regular_part}[name]
    received = [np.asarray(draw(own_draws(jax.random.key(t)), jnp.asarray(adjacency), 2)) for t in range(6)]
    settings = Settings(sgd(momentum=False), num_local_steps=2)
    models, messages, bits, _ = run(ALGORITHMS[name](settings), hparams, problem, [(adjacency, np.eye(5))] * 6)
    sends = [[np.flatnonzero(table[:, j]) for j in range(5)] for table in received]
    np.testing.assert_allclose(models, oracle.epidemic(problem.start, problem.gradient_of, sends, LR, 2), **CLOSE)
    if name == "epidemic" or where == "complete":  # the small graph has one circle through all only
        assert len({table.tobytes() for table in received}) > 1
    assert all(not (table & ~adjacency).any() for table in received)
    if name == "epidemic" or where == "complete":  # all have two neighbours or more
        np.testing.assert_array_equal(messages, 2)
    np.testing.assert_array_equal(bits, BITS * messages)


def test_local_receivers_are_uniform_and_bounded_by_who_hears():
    keys = jax.random.split(jax.random.key(0), 2000)
    many = jax.jit(jax.vmap(random_receivers, in_axes=(0, None, None)))
    sent = np.asarray(many(keys, ~jnp.eye(7, dtype=bool), 2))
    assert (sent.sum(axis=1) == 2).all()
    share = sent.mean(axis=0)[~np.eye(7, dtype=bool)]
    assert (np.abs(share - 1 / 3) < 4.5 * np.sqrt(2 / 9 / 2000)).all()
    one_way = np.zeros((7, 7), bool)
    one_way[0, 1:] = True  # client 0 hears all, nobody hears it
    few = np.asarray(many(keys[:3], jnp.asarray(one_way), 2))
    np.testing.assert_array_equal(few, np.broadcast_to(one_way, few.shape))


@pytest.mark.few(2)
@pytest.mark.parametrize(("n", "degree"), [(7, 3), (20, 7), (6, 2), (8, 7), (9, 4)])
def test_oracle_graphs_are_regular_symmetric_and_alike_for_all(n, degree):
    """Where the sum of the degrees would be odd, one client has one link less."""
    draw = jax.jit(jax.vmap(random_regular_part, in_axes=(0, None, None)))
    graphs = np.asarray(draw(jax.random.split(jax.random.key(n), 500), ~jnp.eye(n, dtype=bool), degree))
    assert (graphs == graphs.swapaxes(1, 2)).all()
    assert not graphs[:, np.arange(n), np.arange(n)].any()
    assert graphs.sum(axis=2).max() <= degree
    regular = graphs.sum(axis=(1, 2)) == n * degree - n * degree % 2
    assert regular.mean() > 0.95
    share = graphs.mean(axis=0)[~np.eye(n, dtype=bool)]
    wanted = (degree - n * degree % 2 / n) / (n - 1)
    assert (np.abs(share - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / 500) + 0.01).all()


@pytest.mark.parametrize("seed", range(3))
def test_oracle_graphs_inside_a_network_are_maximal(seed):
    """Nobody has more links than asked, and no two in range both lack one and are not linked."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((12, 12)) < 0.35, 1)
    adjacency = upper | upper.T
    adjacency[3, 4], adjacency[4, 3] = True, False  # of one direction: not used
    found = np.asarray(random_regular_part(jax.random.key(seed), jnp.asarray(adjacency), 3))
    mutual = adjacency & adjacency.T
    assert (found == found.T).all()
    assert not (found & ~mutual).any()
    lacks = found.sum(axis=1) < np.minimum(3, mutual.sum(axis=1))
    assert found.sum(axis=1).max() <= 3
    assert not (mutual & ~found & lacks[:, None] & lacks[None, :]).any()
