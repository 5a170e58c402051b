"""The partition ``quantity_skew``: unequal numbers of samples by a Dirichlet distribution, labels alike."""

import jax
import jax.numpy as jnp

from mdfl_jax.contrib.partitions.sizes import deal_by_sizes, sizes_of_shares
from mdfl_jax.core.numbers import number
from mdfl_jax.data.partition import PARTITIONS, PartitionNumbers, PartitionSettings


class QuantityNumbers(PartitionNumbers):
    """The numbers of the partition ``quantity_skew``."""

    beta: float = number(0.5, "concentration of the clients' shares of all samples", above=0, source="Li 2022: 0.5")


@PARTITIONS.register(
    "quantity_skew",
    QuantityNumbers,
    formula="(p_1, ..., p_N) ~ Dir(beta, ..., beta);  n_i = p_i n, whatever the labels",
    cite="li2022silos: quantity skew",
)
def quantity_skew(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Draw the clients' shares of all samples from Dir(beta, ..., beta), and deal the samples whatever their labels.

    Every client holds at least one sample if there are enough samples. Smaller values of beta make
    the numbers more unequal.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    key_shares, key_deal = jax.random.split(key)
    shares = jax.random.dirichlet(key_shares, jnp.full(settings.num_clients, settings.numbers.beta, jnp.float32))
    return deal_by_sizes(key_deal, labels.shape[0], sizes_of_shares(shares, labels.shape[0]))
