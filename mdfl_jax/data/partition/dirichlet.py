"""The partition ``dirichlet``: each class is divided among the clients by shares of a Dirichlet distribution."""

import jax
import jax.numpy as jnp

from mdfl_jax.data.partition import PARTITIONS, DirichletNumbers, PartitionSettings, cuts_of_shares, deal_by_cuts

ORDER = 2  # folded into the key, for the orders of the clients; the other keys are split from it


@PARTITIONS.register(
    "dirichlet",
    DirichletNumbers,
    formula="(p_1, ..., p_N) ~ Dir(alpha, ..., alpha) for each class; client i gets the share p_i of the class",
    cite="yurochkin2019; madfl; dadfl",
)
def dirichlet(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Divide each class among the clients by Dirichlet shares: unequal labels and unequal numbers of samples.

    The samples of a class are shuffled and cut at the cumulative shares, so a client holds its share of the class,
    rounded up or down. Clients therefore hold unequal numbers of samples, and a client may hold none. Another
    convention draws the shares of each CLIENT over the classes and keeps the numbers equal: `dirichlet_per_client`,
    `dirichlet_balanced`. MADFL and DADFL speak of unequal numbers, so their convention is the one above.

    The cuts of a class are made in the order of the clients. If it has fewer samples than there are clients, most of
    its shares are rounded to nothing; then the clients are in an order that is drawn for the class, so that not the
    same ones go away empty in every class.

    The result does not depend on ``settings.num_classes``, an upper bound of the number of labels.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    num_clients, classes = settings.num_clients, jnp.arange(settings.num_classes)
    key_rank, key_shares = jax.random.split(key)
    concentration = jnp.full(num_clients, settings.numbers.alpha, jnp.float32)
    shares = jax.vmap(lambda c: jax.random.dirichlet(jax.random.fold_in(key_shares, c), concentration))(classes)
    size, key_order = jnp.bincount(labels, length=settings.num_classes), jax.random.fold_in(key, ORDER)
    drawn = jax.vmap(lambda c: jax.random.permutation(jax.random.fold_in(key_order, c), num_clients))(classes)
    order = jnp.where(size[:, None] < num_clients, drawn, jnp.arange(num_clients))
    place = deal_by_cuts(key_rank, labels, cuts_of_shares(jnp.take_along_axis(shares, order, axis=1), size))
    return order[labels, place].astype(jnp.int32)
