"""Random movement on the grid (MADFL algorithm 5, DADFL eq. 3)."""

import jax

from mdfl_jax.mobility.grid import GridClient, GridWorld, grid_mobility, uniform_within
from mdfl_jax.mobility.many import always_settled
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


def random_step(key: jax.Array, client: GridClient, world: GridWorld) -> GridClient:
    """Moves one client to a grid point drawn uniformly within Rm of its place. It has no destination afterwards.

    Args:
      key: typed key of this client in this round.
      client: the client that moves.
      world: the grid world.
    """
    place = uniform_within(key, world, client.location)
    return client._replace(location=place, destination=place)


@MOBILITIES.register("random_movement")
def random_movement() -> Mobility:
    """Random movement: a mobile client goes to a grid point drawn uniformly within Rm of its place, itself included."""

    def move(key: jax.Array, client: GridClient, world: GridWorld, plan: None) -> GridClient:
        del plan
        return random_step(key, client, world)

    mobility = grid_mobility(move, quick=always_settled(move))
    return mobility._replace(destination=None)  # it is always where it is heading
