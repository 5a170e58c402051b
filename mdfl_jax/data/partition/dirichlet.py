"""The partition ``dirichlet``: each class is divided among the clients by shares of a Dirichlet distribution."""

import jax
import jax.numpy as jnp

from mdfl_jax.data.partition import PARTITIONS, DirichletNumbers, PartitionSettings, cuts_of_shares, deal_by_cuts


@PARTITIONS.register("dirichlet", DirichletNumbers, "Each label's shares over the clients are of a Dirichlet law.")
def dirichlet(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Draw a label-Dirichlet partition: each class is divided among the clients by shares from Dir(alpha, ..., alpha).

    The samples of a class are shuffled and cut at the cumulative shares, so a client holds its share of the class,
    rounded up or down. Clients therefore hold unequal numbers of samples, and a client may hold none (Yurochkin et
    al., "Bayesian nonparametric federated learning of neural networks", ICML 2019). Another convention draws the
    shares of each CLIENT over the classes and keeps the numbers equal: `dirichlet_per_client`, `dirichlet_balanced`.
    MADFL and DADFL speak of unequal numbers, so their convention is the one above.

    The result does not depend on ``settings.num_classes``, an upper bound of the number of labels.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    num_classes = settings.num_classes
    key_rank, key_shares = jax.random.split(key)
    concentration = jnp.full(settings.num_clients, settings.numbers.alpha, jnp.float32)
    shares = jax.vmap(lambda c: jax.random.dirichlet(jax.random.fold_in(key_shares, c), concentration))(
        jnp.arange(num_classes)
    )
    return deal_by_cuts(key_rank, labels, cuts_of_shares(shares, jnp.bincount(labels, length=num_classes)))
