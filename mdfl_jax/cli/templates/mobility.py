"""A mobility rule of your own, on the grid.

Run it with:       mdfl sweep ./my_name.py        (from a checkout: python -m launch.sweep --config=my_name.py)
Use it elsewhere:  mdfl sweep digits --use=my_name.py --config.sweep=network.mobility=dcm,my_name
Test it with:      python -m pytest test_my_name.py
"""

import jax
import jax.numpy as jnp

from mdfl_jax.config import default_config
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.mobility import MOBILITIES, grid_mobility, nearest_within


class MyNameNumbers(Numbers):
    patience: float = number(0.8, "probability of keeping a destination for one more round", at_least=0, at_most=1)


@MOBILITIES.register("my_name", MyNameNumbers)
def my_name():
    """Uniform destinations, some of which are given up on the way."""

    def move(key, client, world, plan):  # ONE client; location and destination are indices into world.grid
        key_where, key_whether = jax.random.split(key)
        anywhere = jax.random.randint(key_where, (), 0, len(world.grid))
        keeps = jax.random.bernoulli(key_whether, world.numbers.patience) & (client.location != client.destination)
        destination = jnp.where(keeps, client.destination, anywhere)
        return client._replace(location=nearest_within(world, client.location, destination), destination=destination)

    return grid_mobility(move)


def get_config():
    config = default_config()
    config.name = "my_name"
    config.sweep = "network.mobility=random_movement,my_name"
    config.baseline = "network.mobility=random_movement"
    return config
