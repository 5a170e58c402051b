"""What spectral and dcm_weighted choose: against the eigenvalues of NumPy, and against the law of the draws."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import strategies as oracle
from strategy_world import GRID, MOBILE, RADIUS, SIZE, STATIC, STEP, looking, played, world

from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.choosing import NEVER, Sites
from mdfl_jax.mobility.strategies.dcm_weighted import dcm_weighted
from mdfl_jax.mobility.strategies.spectral import spectral

ROUNDS = 24


def second_eigenvalue(weight):
    return np.linalg.eigvalsh(np.diag(weight.sum(axis=1)) - weight)[1]


def recent(paths, static, now, memory=0.8):
    """The weights of the contacts so far, between mobile clients (first) and static ones."""
    weight = np.zeros((MOBILE + STATIC, MOBILE + STATIC))
    for a, b in itertools.combinations(range(STATIC), 2):
        weight[MOBILE + a, MOBILE + b] = oracle.in_range(static[a], static[b][None], RADIUS)[0]
    for i, age in enumerate(oracle.ages(paths, static, RADIUS, now)):
        weight[i, MOBILE:] = np.where(age <= now, memory**age, 0)
    return np.maximum(weight, weight.T)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_spectral_raises_the_second_eigenvalue_more_than_nearly_all_other_places_would(seed):
    w, _, destination, states = played("spectral", seed, rounds=ROUNDS)
    location = states.clients.location
    static, paths, ranks = GRID[np.asarray(w.start)][MOBILE:], GRID[location[:, :MOBILE]], []
    for now, i in itertools.product(range(8, ROUNDS), range(MOBILE)):
        weight = recent(paths, static, now)
        before = second_eigenvalue(weight)
        if location[now, i] != destination[now, i] or before < 1e-3:
            continue
        worth = []
        for point in GRID:
            near = oracle.in_range(point, static, RADIUS)
            with_visit = weight.copy()
            with_visit[i, MOBILE:] += 1e-3 * near  # a small weight, since the rule is of first order
            rounds = np.ceil(np.linalg.norm(point - GRID[location[now, i]]) / STEP - 1e-6)
            worth.append((second_eigenvalue(np.maximum(with_visit, with_visit.T)) - before) * 0.5**rounds)
        others = np.delete(np.array(worth), location[now, i])
        ranks.append(np.mean(others <= worth[destination[now + 1, i]] + 1e-9))
    assert len(ranks) > 10
    assert np.mean(ranks) > 0.9


def test_spectral_goes_to_those_it_has_not_met():
    """Two groups of static clients; a client that has just met the smaller one belongs to it, and links the other."""
    met, other = [(1, 1), (1, 2)], [(9, 9), (9, 8), (9, 7), (9, 6), (9, 5)]
    mobile = [(5, 5), (1, 9), (9, 1)]
    points = {tuple(point): number for number, point in enumerate(GRID.astype(int).tolist())}
    w = world("spectral", start=[points[place] for place in (*mobile, *met, *other)], discount=1.0)
    rule = MOBILITIES["spectral"]()
    memory = rule.init(jax.random.key(7), w)
    last = np.full(memory.last.shape, NEVER)
    last[0, 3:5], last[1, [3, 5]] = 10, 4  # the one that chooses; another, who once met one of each group
    memory = memory._replace(round=jnp.int32(10), last=jnp.asarray(last))
    sites = Sites(jnp.arange(SIZE * SIZE), jnp.ones(SIZE * SIZE, bool))
    sight = looking("spectral", w, memory, 0, ~w.is_mobile, sites)
    for seed in range(5):
        chosen = GRID[int(spectral(jax.random.key(seed), sight))]
        assert oracle.in_range(chosen, np.array(other, float), RADIUS).sum() >= 2


def test_weighted_dcm_draws_by_label_distance_times_samples():
    w = world("dcm_weighted", 5)
    memory = MOBILITIES["dcm_weighted"]().init(jax.random.key(7), w)
    sites = Sites(jnp.arange(SIZE * SIZE), jnp.ones(SIZE * SIZE, bool))
    sight = looking("dcm_weighted", w, memory, 0, ~w.is_mobile, sites)
    keys = jax.random.split(jax.random.key(0), 20_000)
    found = np.bincount(jax.vmap(lambda key: dcm_weighted(key, sight))(keys), minlength=len(GRID)) / len(keys)
    static, counts = GRID[np.asarray(w.start)][MOBILE:], np.asarray(w.label_counts)
    weight = np.array(
        [
            oracle.label_distance(point, GRID[int(w.start[0])], static, counts[MOBILE:], counts[0], RADIUS)
            * counts[MOBILE:][oracle.in_range(point, static, RADIUS)].sum()
            for point in GRID
        ]
    )
    np.testing.assert_allclose(found, weight / weight.sum(), atol=0.012)
    assert (found[weight == 0] == 0).all()
