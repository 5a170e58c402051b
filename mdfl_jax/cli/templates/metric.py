"""A metric of your own. It is written to the files of every study that imports this file.

Run it with:       mdfl sweep ./my_name.py        (from a checkout: python -m launch.sweep --config=my_name.py)
Use it elsewhere:  mdfl sweep digits --use=my_name.py
Test it with:      python -m pytest test_my_name.py
"""

import jax
import jax.numpy as jnp

from mdfl_jax.config import default_config
from mdfl_jax.metrics import CURVE, HOLDS, TABLE, metric


@metric("my_name", still=HOLDS, label="Euclidean norm of a model", shown={CURVE, TABLE})
def my_name(at):
    """[N] float32 Euclidean norm of each client's parameters."""
    squares = [jnp.sum(jnp.square(leaf), axis=range(1, leaf.ndim)) for leaf in jax.tree.leaves(at.models)]
    return jnp.sqrt(sum(squares))


def get_config():
    config = default_config()
    config.name = "my_name"
    config.sweep = "network.mobility=static,dcm"
    return config
