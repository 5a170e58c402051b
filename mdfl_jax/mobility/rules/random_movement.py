"""Random movement on the grid (MADFL algorithm 5, DADFL eq. 3)."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import within
from mdfl_jax.mobility.grid import GridClient, GridWorld, always_settled, grid_mobility, random_step
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


def uniform_chain(grid: jax.Array, max_step: jax.Array | float) -> jax.Array:
    """Return the probabilities of the next place from each grid point: the same for all points within Rm.

    Args:
      grid: [L, 2] the grid points.
      max_step: Rm.

    Returns:
      [L, L] float32.
    """
    near = within(grid, grid, max_step)
    return near / jnp.sum(near, axis=1, keepdims=True)


@MOBILITIES.register("random_movement", formula="place+ ~ U(points within Rm)", cite="madfl: algorithm 5; dadfl: eq. 3")
def random_movement() -> Mobility:
    """Random movement: a mobile client goes to a grid point drawn uniformly within Rm of its place, itself included."""

    def move(key: jax.Array, client: GridClient, world: GridWorld, plan: None) -> GridClient:
        del plan
        return random_step(key, client, world)

    mobility = grid_mobility(move, quick=always_settled(move))
    return mobility._replace(destination=None, chain=uniform_chain)  # it is always where it is heading
