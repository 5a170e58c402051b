"""An example of a mobility rule that a user writes, compared with random movement and DCM.

Command:   mdfl sweep own_rule
Expected:  random movement 87 %, wanderer 89 %, DCM 90 %.
Measured:  29 s of rounds on two CPU cores, and 13 s of compiling the first time.
"""

import jax
import jax.numpy as jnp

from configs import digits
from mdfl_jax.mobility import MOBILITIES, grid_mobility, nearest_within


@MOBILITIES.register("wanderer")
def wanderer():
    def move(key, client, world, plan):  # ONE client
        anywhere = jax.random.randint(key, (), 0, len(world.grid))
        arrived = client.location == client.destination
        destination = jnp.where(arrived, anywhere, client.destination)
        location = nearest_within(world, client.location, destination)
        return client._replace(location=location, destination=destination)

    return grid_mobility(move)


def get_config():
    config = digits.get_config()
    config.name = "own_rule"
    config.sweep = "network.mobility=random_movement,wanderer,dcm"
    return config
