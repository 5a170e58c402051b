"""A partition of your own: which client holds which training sample.

Run it with:       mdfl sweep ./my_name.py        (from a checkout: python -m launch.sweep --config=my_name.py)
Use it elsewhere:  mdfl sweep digits --use=my_name.py --config.data.partition=my_name
Test it with:      python -m pytest test_my_name.py
"""

import jax
import jax.numpy as jnp

from mdfl_jax.config import default_config
from mdfl_jax.core.numbers import number
from mdfl_jax.data.partition import PARTITIONS, PartitionNumbers


class MyNameNumbers(PartitionNumbers):
    skew: float = number(1.0, "how unequal the numbers of samples are; 0: equal", at_least=0, at_most=10)


@PARTITIONS.register("my_name", MyNameNumbers)
def my_name(key, labels, settings):  # labels: [n]; the result: [n] int32, the client that holds each sample
    """Client k holds a share of the samples, drawn at random, that is proportional to (k + 1) ** skew."""
    share = jnp.arange(1.0, settings.num_clients + 1) ** settings.numbers.skew
    ends = jnp.cumsum(share) / jnp.sum(share) * len(labels)
    place = jax.random.permutation(key, len(labels))
    owner = jnp.searchsorted(ends, place + 0.5, side="right")
    return jnp.minimum(owner, settings.num_clients - 1).astype(jnp.int32)


def get_config():
    config = default_config()
    config.name = "my_name"
    config.sweep = "data.partition=iid,my_name"
    config.baseline = "data.partition=iid"
    return config
