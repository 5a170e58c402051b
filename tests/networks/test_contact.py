"""`networks.contact.disc` against the loop oracle, above all where a distance equals the radius."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import grid_world

from mdfl_jax.networks.contact import disc

JIT_DISC = jax.jit(disc)


@pytest.mark.parametrize("size", [18, 35])
def test_whole_grid_at_integer_radii(size):
    """Every pair of a G x G grid is judged as in float64, at each radius from 0 to beyond the diagonal."""
    grid = grid_world.square_grid(size)
    squared = ((grid[:, None, :] - grid[None, :, :]) ** 2).sum(-1)
    others = ~np.eye(len(grid), dtype=bool)
    for radius in range(int(size * 1.5) + 1):
        expected = (np.sqrt(squared.astype(np.float64)) <= radius) & others
        got = np.asarray(JIT_DISC(jnp.asarray(grid, jnp.float32), float(radius)))
        np.testing.assert_array_equal(got, expected, err_msg=f"radius {radius}")


def test_root_as_radius_in_single_precision():
    """A radius written as the root of a grid distance's square, sqrt(2) for the diagonal, reaches that distance."""
    corner, missed, overreached = (1, 1), [], []
    for squared, (a, b) in sorted({a * a + b * b: (a, b) for a in range(35) for b in range(35)}.items())[1:]:
        position = jnp.array([corner, (1 + a, 1 + b)], jnp.float32)
        if not JIT_DISC(position, np.float32(np.sqrt(squared)))[0, 1]:
            missed.append(squared)
        if JIT_DISC(position, np.float32(np.sqrt(squared - 0.5)))[0, 1]:
            overreached.append(squared)
    assert missed == []
    assert overreached == []


@pytest.mark.parametrize("radius", [0.0, 1.0, float(np.sqrt(2)), 2.5, 5.0, np.inf])
def test_equals_the_oracle(radius):
    for seed in range(5):
        position = np.random.default_rng(seed).integers(1, 8, (9, 2))
        expected = grid_world.disc(position, radius)
        np.testing.assert_array_equal(JIT_DISC(jnp.asarray(position, jnp.float32), radius), expected)


def test_places_between_grid_points():
    position = np.random.default_rng(0).uniform(0, 500, (20, 2))
    expected = grid_world.disc(position, 45.0)
    assert expected.any()
    np.testing.assert_array_equal(JIT_DISC(jnp.asarray(position, jnp.float32), 45.0), expected)
