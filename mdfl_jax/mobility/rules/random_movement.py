"""Random movement on the grid (MADFL algorithm 5, DADFL eq. 3)."""

import jax

from mdfl_jax.mobility.grid import GridClient, GridWorld, always_settled, grid_mobility, random_step
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


@MOBILITIES.register("random_movement", formula="place+ ~ U(points within Rm)", cite="madfl: algorithm 5; dadfl: eq. 3")
def random_movement() -> Mobility:
    """Random movement: a mobile client goes to a grid point drawn uniformly within Rm of its place, itself included."""

    def move(key: jax.Array, client: GridClient, world: GridWorld, plan: None) -> GridClient:
        del plan
        return random_step(key, client, world)

    mobility = grid_mobility(move, quick=always_settled(move))
    return mobility._replace(destination=None)  # it is always where it is heading
