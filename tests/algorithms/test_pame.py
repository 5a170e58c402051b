"""PaME against algorithms 1 and 2 as loops, its special cases, and its counts."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from least_squares import NO_LINKS, Problem, graph, run, run_long
from oracles.pame import pame as oracle

from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.pame import pame
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.rng import own_draws
from mdfl_jax.exchange.partial import random_coordinates, random_neighbours

PAME = numbers_of("pame")
ROUNDS = 12


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def drawn(hparams, problem, adjacency, count, rounds=ROUNDS):
    """The draws of `run`'s keys: the periods, and for each round the neighbours picked and the coordinates sent."""
    neighbours, coordinates, periods = [], [], None
    pick, choose = jax.jit(random_neighbours), jax.jit(random_coordinates, static_argnums=(1, 2))
    for t in range(rounds):
        one, two, three = jax.random.split(own_draws(jax.random.key(t)), 3)
        if t == 0:
            shape = (problem.num_clients,)
            periods = jax.random.randint(one, shape, hparams.period_min, hparams.period_max + 1, jnp.int32).tolist()
        picked = np.asarray(pick(two, jnp.asarray(adjacency), hparams.participation))
        sent = np.asarray(choose(three, problem.num_clients, problem.size, count))
        neighbours.append([np.flatnonzero(row) for row in picked])
        coordinates.append([np.flatnonzero(row) for row in sent])
    return periods, neighbours, coordinates


@pytest.mark.parametrize(("participation", "transmission", "growth"), [(0.5, 0.3, 1.05), (0.2, 1.0, 1.0)])
def test_iterations_messages_and_bits_equal_the_loop(participation, transmission, growth):
    problem, (adjacency, mix) = Problem(), graph()
    adjacency[4] = adjacency[:, 4] = False  # nobody near
    numbers = {"participation": participation, "transmission": transmission, "penalty_growth": growth}
    hparams = PAME.replace(lr=0.25, period_min=2, period_max=4, **numbers)
    count = int(np.ceil(transmission * 6 - 1e-9))
    periods, neighbours, coordinates = drawn(hparams, problem, adjacency, count)
    assert set(periods) <= {2, 3, 4}
    assert len(set(periods)) > 1
    models, messages, bits, _ = run(pame(), hparams, problem, [(adjacency, mix)] * ROUNDS)
    expected = oracle(problem.start, problem.gradient_of, neighbours, coordinates, periods, 0.25, growth)
    np.testing.assert_allclose(models, expected, rtol=1e-9, atol=1e-9)
    for k in range(ROUNDS):
        picked = [j for i in range(5) if k % periods[i] == 0 for j in neighbours[k][i]]
        assert messages[k].tolist() == [picked.count(j) for j in range(5)]
        # two of six: two indices of three bits are as long as the bitmap
        assert bits[k].tolist() == [picked.count(j) * (64 * count + (6 if count < 6 else 0)) for j in range(5)]
    assert messages.sum() > 0


def test_the_optimiser_steps_with_its_momentum_decay_and_schedule():
    """Alone and with a penalty that grows: each update is the optimiser's, divided by the growth."""
    problem = Problem()
    hparams = PAME.replace(lr=0.125, momentum=0.9, weight_decay=0.0625, penalty_growth=2.0)
    settings = Settings(optimizer=sgd(optax.exponential_decay(1.0, 1, 0.5)))
    models = run(pame(settings), hparams, problem, [NO_LINKS] * 4)[0]
    w, velocity = problem.start.copy(), 0.0
    for k in range(4):
        velocity = 0.9 * velocity + np.stack([problem.gradient_of(i, w[i]) for i in range(5)]) + 0.0625 * w
        w = w - 0.125 * 0.5**k / 2.0**k * velocity
    np.testing.assert_allclose(models[-1], w, rtol=1e-9)


def test_it_comes_near_the_common_solution():
    """Unlike clients, a fifth of the coordinates of a fifth of the neighbours: far nearer than learning alone."""
    problem, links = Problem(spread=0.5), graph([(i, j) for i in range(5) for j in range(i)])
    found = run_long(pame(), PAME.replace(lr=0.25), problem, links, 1500, np.zeros((5, 6)))
    alone = run_long(pame(), PAME.replace(lr=0.25), problem, NO_LINKS, 1500, np.zeros((5, 6)))
    distance = lambda w: np.linalg.norm(w - problem.solution, axis=1).mean()  # noqa: E731
    assert distance(found) < 0.3 * distance(alone)
