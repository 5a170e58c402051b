"""Sums over discs against loops over all pairs, and cluster centres (DADFL algorithm 1) against their exact law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import grid_world
from scipy import stats

from mdfl_jax.mobility.clustering import cluster_centres

JIT_CENTRES = jax.jit(jax.vmap(cluster_centres, in_axes=(0, None, None, None)))
DRAWS = 8_000
SMALLEST_P = 1e-4


def line(length):
    return np.array([(1, q) for q in range(1, length + 1)])


def draw(grid, static_position, radius, draws=DRAWS, seed=0):
    keys = jax.random.split(jax.random.key(seed), draws)
    grid, static_position = jnp.asarray(grid, jnp.float32), jnp.asarray(static_position, jnp.float32)
    return np.asarray(JIT_CENTRES(keys, grid, static_position.reshape(-1, 2), radius))


WORLDS = {
    "two on one spot and a third elsewhere": (grid_world.square_grid(3), [(1, 1), (1, 1), (3, 3)], 1.0),
    "second tie rule decides among many": (line(7), [(1, 2), (1, 3), (1, 4), (1, 6)], 1.0),
    "most uncovered goes before most in all": (line(9), [(1, 3), (1, 3), (1, 3), (1, 4), (1, 6), (1, 9)], 1.0),
    "square": (grid_world.square_grid(4), [(1, 1), (1, 3), (2, 4), (4, 2)], float(np.sqrt(2))),
    "one client": (grid_world.square_grid(3), [(1, 2)], 1.0),
    "radius inf": (grid_world.square_grid(3), [(1, 1), (3, 3), (1, 3)], np.inf),
    "no client": (grid_world.square_grid(2), [], 1.0),
    "3-4-5": (grid_world.square_grid(5), [(1, 1), (4, 5)], 5.0),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", WORLDS)
def test_law_equals_the_oracle(name):
    """Only possible outcomes, all of them, at frequencies that a chi-square test does not tell from the exact law."""
    grid, static_position, radius = WORLDS[name]
    law = grid_world.cluster_centres_law(grid, static_position, radius)
    assert min(law.values()) * DRAWS > 10, "a world for this test has no rare outcome"
    got = draw(grid, static_position, radius)
    outcomes, counts = np.unique(got, axis=0, return_counts=True)
    observed = {tuple(np.flatnonzero(outcome).tolist()): count for outcome, count in zip(outcomes, counts)}
    assert set(observed) == set(law)
    if len(law) > 1:
        expected = np.array([float(law[outcome]) * DRAWS for outcome in law])
        assert stats.chisquare([observed[outcome] for outcome in law], expected).pvalue > SMALLEST_P
