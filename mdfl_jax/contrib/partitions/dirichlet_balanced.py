"""The partition ``dirichlet_balanced``: Dirichlet labels, equal numbers of samples, and no client is the last."""

import jax
import jax.numpy as jnp

from mdfl_jax.data.partition import PARTITIONS, DirichletNumbers, PartitionSettings, deal_by_counts, draw_turns


@PARTITIONS.register(
    "dirichlet_balanced",
    DirichletNumbers,
    formula="q_i ~ Dir(alpha, ..., alpha) over the classes; in turns, client i takes a sample of a class ~ q_i",
    cite="acar2021",
)
def dirichlet_balanced(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Draw Dirichlet proportions of the labels for each client, and deal one sample at a time: equal numbers.

    The clients take turns, in a random order. In its turn a client draws a label from its own proportions among the
    classes that have samples left. So the numbers of samples differ by at most one, and all clients share what is left
    at the end. (In the source the next client is drawn at random.) In `dirichlet_per_client` the last clients take all
    of it.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    num_clients, num_classes, n = settings.num_clients, settings.num_classes, labels.shape[0]
    turns, log_shares, key_draws, key_rank = draw_turns(key, settings)

    def take(left: jax.Array, turn: jax.Array) -> tuple[jax.Array, jax.Array]:
        log_share = jnp.where(left > 0, log_shares[turns[turn % num_clients]], -jnp.inf)
        label = jax.random.categorical(jax.random.fold_in(key_draws, turn), log_share)
        return left.at[label].add(-1), label

    _, drawn = jax.lax.scan(take, jnp.bincount(labels, length=num_classes), jnp.arange(n), unroll=8)
    counts = jnp.zeros((num_clients, num_classes), jnp.int32).at[turns[jnp.arange(n) % num_clients], drawn].add(1)
    return deal_by_counts(key_rank, labels, counts)
