"""Clients that stay where they are: the reference of MADFL II-C."""

import jax

from mdfl_jax.mobility.grid import GridClient, GridWorld, grid_mobility
from mdfl_jax.mobility.many import always_settled
from mdfl_jax.mobility.plane import PlaneClient, PlaneWorld, plane_mobility
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


@MOBILITIES.register("static")
def static() -> Mobility:
    """Nobody moves on the grid, not even the mobile clients."""

    def move(key: jax.Array, client: GridClient, world: GridWorld, plan: None) -> GridClient:
        del key, world, plan
        return client

    return grid_mobility(move, quick=always_settled(move))._replace(destination=None)  # nobody is heading anywhere


@MOBILITIES.register("static_plane")
def static_plane() -> Mobility:
    """Nobody moves in the plane, where all clients have uniform places."""

    def turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del key, world, plan
        return client

    return plane_mobility(turn, each_round=True, max_events=1)
