"""Uniform destinations, without any knowledge: how much of a strategy's gain comes from travelling alone."""

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.grid import GridClient, GridWorld, always_settled, grid_mobility, nearest_within
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


@MOBILITIES.register("waypoint", formula="destination ~ U(all points); place+ = the point within Rm nearest to it")
def waypoint() -> Mobility:
    """Waypoint: a mobile client goes to a uniformly drawn grid point, and there draws the next one."""

    def move(key: jax.Array, client: GridClient, world: GridWorld, plan: None) -> GridClient:
        anywhere = jax.random.randint(key, (), 0, len(world.grid))
        arrived = client.location == client.destination
        destination = jnp.where(arrived, anywhere, client.destination)
        location = nearest_within(world, client.location, destination)
        return client._replace(location=location, destination=destination)

    return grid_mobility(move, quick=always_settled(move))
