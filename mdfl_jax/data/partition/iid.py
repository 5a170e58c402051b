"""The partition ``iid``: samples are shuffled and dealt out evenly."""

import jax
import jax.numpy as jnp

from mdfl_jax.data.partition import PARTITIONS, PartitionSettings


@PARTITIONS.register("iid", formula="in a random order, sample k goes to client k mod N")
def iid(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Shuffle the samples and divide them evenly among the clients; the numbers of samples differ by at most one.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    place = jax.random.permutation(key, labels.shape[0])
    return (place % settings.num_clients).astype(jnp.int32)
