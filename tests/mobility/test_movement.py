"""Every mobility rule against the NumPy oracle's exact law, and what must hold on whole trajectories."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import grid_world
from scipy import stats

from mdfl_jax.mobility import MOBILITIES, GridWorld
from mdfl_jax.mobility.grid import grid_points, nearest_within, reachable, sample_index, uniform_within

SIZE, CLASSES = 5, 3
DRAWS = 20_000
SMALLEST_P = 1e-4


def world(num_mobile=2, radius=1.5, max_step=2.0, seed=0, num_clients=6, size=SIZE, name="static"):
    rng = np.random.default_rng(seed)
    return GridWorld(
        grid=grid_points(size),
        start=jnp.asarray(rng.integers(0, size * size, num_clients), jnp.int32),
        is_mobile=jnp.arange(num_clients) < num_mobile,
        label_counts=jnp.asarray(
            rng.integers(0, 9, (num_clients, CLASSES)) * (rng.random((num_clients, 1)) < 0.8), jnp.int32
        ),
        radius=jnp.float32(radius),
        max_step=jnp.float32(max_step),
        numbers=MOBILITIES.numbers(name)().typed(),
    )


def static_clients(w):
    """Places and counts of the static clients, as the oracle takes them."""
    still = ~np.asarray(w.is_mobile)
    return np.asarray(w.grid)[np.asarray(w.start)][still], np.asarray(w.label_counts)[still]


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


def assert_law(places, law):
    counts = np.bincount(places, minlength=len(law))
    assert counts[law == 0].sum() == 0
    likely = law > 0
    if likely.sum() > 1:
        rare = likely & (law * len(places) < 5)  # too rare for the test's approximation: taken together
        observed = np.append(counts[likely & ~rare], counts[rare].sum())
        expected = np.append(law[likely & ~rare], law[rare].sum()) * len(places)
        keep = expected > 0
        expected = expected[keep] * observed[keep].sum() / expected[keep].sum()
        assert stats.chisquare(observed[keep], expected).pvalue > SMALLEST_P


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


@pytest.mark.few(3)
@pytest.mark.parametrize("name", [name for name in MOBILITIES if MOBILITIES[name]().world == "grid"])
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


def test_dcm_without_static_clients_stays():
    w = world(num_mobile=6)
    assert (one_step_places("dcm", w)[1] == np.asarray(w.start)).all()


def test_dam_with_every_client_mobile_moves_uniformly():
    """No static client: all histograms are the client's own, all distances zero, so uniform over the grid."""
    w = world(num_mobile=6, max_step=np.inf)
    assert_law(one_step_places("dam", w)[1][:, 0], np.full(SIZE * SIZE, 1 / SIZE**2))


def test_sample_index_at_the_end_of_the_interval(monkeypatch):
    weight = jnp.zeros(324).at[jnp.array([3, 77, 150, 200])].set(jnp.array([0.1, 0.7, 0.3, 0.2]))
    monkeypatch.setattr(jax.random, "uniform", lambda *args: jnp.float32(1.0))
    assert int(sample_index(jax.random.key(0), weight)) == 200


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [7, 1, 2, 12])
def test_row_search_equals_the_search_of_the_whole_grid(size):
    """Nearest and uniform points by rows are those of all G x G points, draw by draw and tie by tie."""
    grid = grid_points(size)
    zero = jnp.zeros(1, jnp.int32)
    places = jnp.arange(len(grid))
    keys = jax.random.split(jax.random.key(size), len(grid))

    def plain(max_step):
        return GridWorld(grid, zero, zero > 0, zero[:, None], jnp.float32(1), max_step)

    def whole_grid(max_step, key, here, there):
        near = reachable(plain(max_step), here)
        distance = jnp.sum(jnp.square(grid - grid[there]), axis=1)
        return jnp.argmin(jnp.where(near, distance, jnp.inf)), sample_index(key, near.astype(jnp.float32))

    def by_rows(max_step, key, here, there):
        return nearest_within(plain(max_step), here, there), uniform_within(key, plain(max_step), here)

    def of_every_pair(search):
        return jax.jit(jax.vmap(jax.vmap(search, (None, 0, None, 0)), (None, None, 0, None)))

    rows, whole = of_every_pair(by_rows), of_every_pair(whole_grid)
    for max_step in (0.0, 1.0, 2.0**0.5, 2.9, 5.0**0.5, 5.0, 100.0, np.inf):
        given = np.float32(max_step), keys, places, places
        for found, expected in zip(rows(*given), whole(*given)):
            np.testing.assert_array_equal(found, expected)
