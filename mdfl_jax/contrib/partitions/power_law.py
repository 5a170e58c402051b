"""The partition ``power_law``: numbers of samples that fall with a power of the rank, labels alike."""

import jax
import jax.numpy as jnp

from mdfl_jax.contrib.partitions.sizes import deal_by_sizes, sizes_of_shares
from mdfl_jax.core.numbers import number
from mdfl_jax.data.partition import PARTITIONS, PartitionNumbers, PartitionSettings


class PowerLawNumbers(PartitionNumbers):
    """The numbers of the partition ``power_law``."""

    exponent: float = number(1.0, "a, where the client of rank r holds a share proportional to r^-a", at_least=0)


@PARTITIONS.register(
    "power_law",
    PowerLawNumbers,
    formula="n_i ~ r_i^-exponent, with the ranks r_i a random permutation of 1..N",
    cite="li2020fedprox",
)
def power_law(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Give the client of rank r a share of the samples proportional to r^-exponent, whatever their labels.

    The ranks 1..N are dealt at random. Every client holds at least one sample if there are
    enough samples.

    With an exponent of 0 the numbers are equal, up to one sample; with 1 they follow Zipf's law.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    key_rank, key_deal = jax.random.split(key)
    rank = jax.random.permutation(key_rank, settings.num_clients)
    log_share = -settings.numbers.exponent * jnp.log1p(rank.astype(jnp.float32))
    sizes = sizes_of_shares(jax.nn.softmax(log_share), labels.shape[0])
    return deal_by_sizes(key_deal, labels.shape[0], sizes)
