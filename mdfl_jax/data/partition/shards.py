"""The partition ``shards``: the samples are sorted by label and cut, and each client gets some of the pieces."""

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.numbers import number
from mdfl_jax.data.partition import PARTITIONS, PartitionNumbers, PartitionSettings


class ShardsNumbers(PartitionNumbers):
    """The numbers of the partition ``shards``."""

    shards_per_client: int = number(2, "shards that each client holds", static=True, at_least=1)


@PARTITIONS.register(
    "shards",
    ShardsNumbers,
    formula="the samples by label, cut into N s shards; each client gets s = shards_per_client random ones",
    cite="mcmahan2017: 3; thesis",
)
def shards(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Sort the samples by label, cut them into N * shards_per_client shards, and give each client that many shards.

    This is the pathological non-IID split of the source. The thesis uses it with four shards per client.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    each = settings.numbers.shards_per_client
    n, num_shards = labels.shape[0], settings.num_clients * each
    order = jnp.argsort(labels, stable=True)
    # Shard k holds the sorted samples floor(k n / K) to floor((k+1) n / K) - 1, with K shards. The ends are computed
    # before the program runs, since n * K may not fit in 32 bits.
    ends = jnp.asarray(np.arange(1, num_shards + 1, dtype=np.int64) * n // num_shards, jnp.int32)
    shard = jnp.searchsorted(ends, jnp.arange(n, dtype=jnp.int32), side="right")
    taker = jax.random.permutation(key, num_shards) // each
    return jnp.zeros(n, jnp.int32).at[order].set(taker[shard].astype(jnp.int32))
