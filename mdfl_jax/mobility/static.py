"""Clients that stay where they are: the reference of MADFL II-C."""

import jax

from mdfl_jax.mobility.grid import GridClient, GridWorld, Mobility, grid_mobility
from mdfl_jax.mobility.registry import MOBILITIES


@MOBILITIES.register("static")
def static() -> Mobility:
    """Nobody moves, the clients called mobile included."""

    def move(key: jax.Array, client: GridClient, world: GridWorld, plan: None) -> GridClient:
        del key, world, plan
        return client

    return grid_mobility(move)
