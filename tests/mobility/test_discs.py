"""Sums over discs, and walks over the clients in discs, against loops over all pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import grid_world

from mdfl_jax.mobility.discs import half_widths, over_near, standing, summed_at, sums_in_range

RADII = [0.0, 1.0, float(np.sqrt(2)), 2.5, float(np.sqrt(13)), 5.0, np.inf]
SUMS = jax.jit(sums_in_range)


@pytest.mark.parametrize("radius", RADII)
def test_half_widths(radius):
    expected = []
    for row in range(7):
        inside = [column for column in range(7) if grid_world.distance((0, 0), (row, column)) <= radius]
        expected.append(max(inside, default=-1))
    assert half_widths(7, radius).tolist() == expected


@pytest.mark.parametrize("radius", RADII)
def test_sums_are_those_of_all_pairs(radius):
    size, rng = 7, np.random.default_rng(0)
    grid, values = grid_world.square_grid(size), rng.integers(0, 1000, (size, size, 3))
    expected = np.zeros((size * size, 3), int)
    for index, place in enumerate(grid):
        for other, there in enumerate(grid):
            if grid_world.distance(place, there) <= radius:
                expected[index] += values.reshape(-1, 3)[other]
    np.testing.assert_array_equal(SUMS(jnp.asarray(values, jnp.int32), radius).reshape(-1, 3), expected)


def test_sums_at_places():
    got = summed_at(jnp.array([3, 0, 3]), jnp.array([[1, 2], [3, 4], [5, 6]]), 2)
    assert got.tolist() == [[[3, 4], [0, 0]], [[0, 0], [6, 8]]]


@pytest.mark.parametrize("radius", [0.0, 1.5, 3.0, np.inf])
def test_each_client_is_shown_once_to_all_that_ask_and_are_near(radius):
    """Several clients at one point, some that do not count and some that do not ask."""
    size, count, rng = 5, 24, np.random.default_rng(1)
    grid = grid_world.square_grid(size)
    places, from_where = rng.integers(0, size * size, (2, count))
    counted, asking = rng.random((2, count)) < 0.7

    @jax.jit
    def seen(radius):
        rows = jnp.arange(count)
        note = lambda state, other, is_there: state.at[rows, other].add(is_there.astype(jnp.int32))  # noqa: E731
        found = standing(jnp.asarray(places), jnp.asarray(counted), size * size)
        start = jnp.zeros((count, count), jnp.int32)
        return over_near(note, start, found, jnp.asarray(from_where), jnp.asarray(asking), size, radius)

    expected = [
        [
            int(asking[i] and counted[j] and grid_world.distance(grid[from_where[i]], grid[places[j]]) <= radius)
            for j in range(count)
        ]
        for i in range(count)
    ]
    assert seen(radius).tolist() == expected
