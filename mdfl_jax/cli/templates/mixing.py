"""Mixing weights of your own: with which weight a client averages the models that it hears.

Run it with:       mdfl sweep ./my_name.py        (from a checkout: python -m launch.sweep --config=my_name.py)
Use it elsewhere:  mdfl sweep digits --use=my_name.py --config.network.mixing=my_name
Test it with:      python -m pytest test_my_name.py
"""

import jax.numpy as jnp

from mdfl_jax.config import default_config
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.networks.mixing import MIXINGS


class MyNameNumbers(Numbers):
    own: float = number(0.5, "weight of a client's own model, where it hears another one", at_least=0, at_most=1)


@MIXINGS.register("my_name", MyNameNumbers)
def my_name(inputs):  # row i holds the weights of client i, with sum one; a place for each client it may hear
    """Give a client's own model a fixed weight, and the rest in equal parts to the models that it hears."""
    degree = jnp.sum(inputs.adjacency, axis=1, keepdims=True)
    own = jnp.where(degree > 0, inputs.numbers.own, 1.0)
    return inputs.senders.on_own(own[:, 0]) + (1 - own) * inputs.adjacency / jnp.maximum(degree, 1)


def get_config():
    config = default_config()
    config.name = "my_name"
    config.sweep = "network.mixing=uniform,my_name"
    config.baseline = "network.mixing=uniform"
    return config
