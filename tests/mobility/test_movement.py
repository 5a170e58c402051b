"""Every mobility rule against the NumPy oracle's exact law, and what must hold on whole trajectories."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import grid_world
from oracles.laws import assert_law
from strategy_world import crowd, static_clients

from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.label_distances import counts_in_range, probabilities_from_counts

SIZE = 5
DRAWS = 20_000


def world(num_mobile=2, radius=1.5, max_step=2.0, seed=0, num_clients=6, name="static"):
    numbers = MOBILITIES.numbers(name)().typed()
    return crowd(SIZE, num_clients, num_mobile, radius, max_step, seed, numbers, some_without_samples=True)


@functools.cache
def program(name):
    """(keys, world) -> the state at the beginning, and the places after the first round, [draws, N]."""
    rule = MOBILITIES[name]()

    @jax.jit
    def run(keys, w):
        state = rule.init(jax.random.key(7), w)
        return state, jax.vmap(lambda key: rule.step(key, w, state)[0].location)(keys)

    return run


def one_step_places(name, w):
    """The state at the beginning, and the places after the first round under many keys, for one plan: [draws, N]."""
    return jax.device_get(program(name)(jax.random.split(jax.random.key(0), DRAWS), w))


def test_random_movement_law():
    for max_step in (0.0, 1.0, 2.0, np.inf):
        w = world(max_step=max_step)
        _, places = one_step_places("random_movement", w)
        for i in range(2):
            assert_law(places[:, i], grid_world.random_movement_law(int(w.start[i]), np.asarray(w.grid), max_step))


@pytest.mark.parametrize("name", ["dam", "dcm"])
def test_distribution_aware_law(name):
    cases = itertools.product([(1.5, 2.0), (0.0, 1.0), (2.0, np.inf), (np.inf, 2.0)], range(2))
    for (radius, max_step), seed in cases:
        w = world(radius=radius, max_step=max_step, seed=seed)
        grid, (position, counts), candidates = np.asarray(w.grid), static_clients(w), np.ones(SIZE * SIZE, bool)
        state, places = one_step_places(name, w)
        if name == "dcm":
            candidates = state[1][1]
            assert grid_world.is_possible_outcome(np.flatnonzero(candidates), grid, position, radius)
        for i in range(2):
            here, own = int(w.start[i]), np.asarray(w.label_counts[i])
            told = position, counts, grid, radius, max_step, candidates
            assert_law(places[:, i], grid_world.distribution_aware_law(here, own, *told))


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "name", ["static", "random_movement", "waypoint", "dam", "dcm"]
)  # others are in test_strategies.py
def test_static_clients_stay_and_mobile_ones_keep_the_limit(name):
    w, rule = world(num_mobile=3, max_step=2.0, num_clients=8, name=name), MOBILITIES[name]()

    def step(state, t):
        state = rule.step(jax.random.fold_in(jax.random.key(3), t), w, state)
        return state, (rule.position(w, state), state[0].destination)

    state = rule.init(jax.random.key(0), w)
    start = rule.position(w, state)
    _, (path, destination) = jax.jit(lambda s: jax.lax.scan(step, s, jnp.arange(200)))(state)
    path = np.concatenate([start[None], path])
    moved = np.linalg.norm(np.diff(path, axis=0), axis=-1)
    assert (moved[:, 3:] == 0).all()
    assert (moved <= 2.0).all()
    assert path.min() >= 1
    assert path.max() <= SIZE
    assert (np.unique(path[:, 0], axis=0).shape[0] > 1) == (name != "static")
    if name in ("dam", "dcm"):
        check_destinations(np.asarray(w.grid), path, np.asarray(destination))


def check_destinations(grid, path, destination):
    """A destination is kept until it is reached, and every step is the one that the oracle makes towards it."""
    index = {tuple(place): i for i, place in enumerate(grid.tolist())}
    for i in range(3):
        places = [index[tuple(place)] for place in path[:, i].tolist()]
        for t in range(len(places) - 1):
            assert places[t + 1] == grid_world.next_place(places[t], int(destination[t, i]), grid, 2.0)
            if t and places[t] != destination[t - 1, i]:
                assert destination[t, i] == destination[t - 1, i]


@jax.jit
def probabilities(location, own_counts, static_position, static_counts, grid, radius, candidates):
    near = counts_in_range(static_position.astype(jnp.float32), static_counts, grid.astype(jnp.float32), radius)
    return probabilities_from_counts(location, own_counts, near, candidates)


def test_destinations_are_as_likely_as_label_histograms_differ():
    """Of a few samples, none, or thousands as of MNIST; in single precision a sample among thousands blurs."""
    grid, rng, judged = grid_world.square_grid(SIZE), np.random.default_rng(0), 0
    for case in range(150):
        own, *counts = rng.choice([0, 1, 4, 7_000], (5, 1)) * rng.random((5, 3)) // 1
        radius = [0.0, 1.0, float(np.sqrt(2)), 2.0, 3.0, np.inf][case % 6]
        candidates = rng.random(len(grid)) < rng.choice([0.1, 0.7, 1.0])
        candidates[rng.integers(len(grid))] = True
        place = grid[rng.integers(0, len(grid), 4)]
        told = int(rng.integers(len(grid))), own.astype(int), place, np.array(counts, int), grid, radius
        found, apart = np.asarray(probabilities(*told, candidates)), grid_world.distribution_distances(*told)
        if apart.max() > 0 and apart[apart > 0].min() < 1e-5:
            continue
        total, judged = apart[candidates].sum(), judged + 1
        blur = 3e-7 / total if total else 0.0
        expected = grid_world.destination_probabilities(*told, candidates)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 + blur)
        assert (found[~candidates] == 0).all()
    assert judged > 100


def test_equal_proportions_are_exactly_no_distance():
    """Counts (a, b, c) times 1, 2, ... are one histogram: rounding must not make a preference out of them."""
    rng, line = np.random.default_rng(0), np.array([(1, q) for q in range(1, 61)])
    for _ in range(5):
        counts = rng.integers(1, 60, (60, 1)) * rng.integers(1, 120, 3)
        found = probabilities(0, np.zeros(3, int), line, counts, line, 0.0, np.ones(60, bool))
        np.testing.assert_allclose(found, np.full(60, 1 / 60), rtol=1e-4)
