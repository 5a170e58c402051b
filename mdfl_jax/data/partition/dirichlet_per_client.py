"""The partition ``dirichlet_per_client``: every client has its own proportions of the labels."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import number
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.data.partition import PARTITIONS, DirichletNumbers, PartitionSettings, deal_by_counts, draw_turns


class PerClientNumbers(DirichletNumbers):
    """The numbers of the partition ``dirichlet_per_client``."""

    samples_per_client: int = number(
        0, "samples that each client takes; 0 deals all samples out", static=True, at_least=0, source="FedMobile: 400"
    )

    def check_dataset(self, dataset: Dataset, num_clients: int) -> None:
        """Check that the data set has ``samples_per_client`` samples for each client."""
        each, known = self.samples_per_client, len(dataset.strata)
        if each * num_clients > known:
            raise UserError(
                f"data.samples_per_client is {each}; {dataset.name} has {known} training samples, so it must be at "
                f"most {known // num_clients} for {num_clients} clients"
            )


def draw_labels(key: jax.Array, log_share: jax.Array, left: jax.Array, count: jax.Array, most: int) -> jax.Array:
    """Draw labels one after another from a client's proportions, without replacement from what is left of the classes.

    A class that is used up is left out, and the other proportions are scaled up. The draws are made together: if
    samples of class c arrive at the times of a Poisson process of rate share[c] that ends with the last sample, the
    next arrival is of class c with the probability share[c] divided by the sum over the classes that are not used up.
    So the first ``count`` arrivals are the draws.

    Args:
      key: typed key.
      log_share: [C] float, the logarithms of the proportions, up to a constant.
      left: [C] int, the number of samples left of each class; the sum is at least ``count``.
      count: [] int, the number of draws.
      most: an upper bound of ``count``, which is static.

    Returns:
      [C] int32, the number of draws of each class.
    """
    gaps = jax.random.exponential(key, (left.shape[0], most))
    # Times are logarithms, since shares of a small alpha underflow.
    log_time = jnp.log(jnp.cumsum(gaps, axis=1)) - log_share[:, None]
    log_time = jnp.where(jnp.arange(most) < left[:, None], log_time, jnp.inf)
    earliest = jnp.argsort(log_time.reshape(-1))[:most] // most
    return jnp.zeros(left.shape[0], jnp.int32).at[earliest].add(jnp.arange(most) < count)


@PARTITIONS.register(
    "dirichlet_per_client",
    PerClientNumbers,
    formula="q_i ~ Dir(alpha, ..., alpha) over the classes; one after another, client i takes samples ~ q_i",
    cite="hsu2019; fedmobile",
)
def dirichlet_per_client(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Draw Dirichlet proportions of the labels for each client, and then its samples: equal numbers of samples.

    The clients take their samples one after another, in a random order, without replacement. If a class
    is used up, later clients do without it. So the last clients take what is left, and their labels follow their
    proportions less closely. The numbers of samples differ by at most one. Hsu et al. write Dir(alpha p) with a
    distribution p over the classes; their alpha is C times this one if p is uniform.

    With ``samples_per_client`` every client takes exactly this number, and the other samples are not used. If the data
    set is so large that no class is used up, all clients follow their proportions alike.

    Returns:
      owner: [n] int32 in 0..N-1, or -1 for a sample that is not used.
    """
    num_clients, num_classes = settings.num_clients, settings.num_classes
    n = settings.numbers.samples_per_client * num_clients or labels.shape[0]
    turns, log_shares, key_draws, key_rank = draw_turns(key, settings)
    share_of_all, rest = divmod(n, num_clients)

    def take(left: jax.Array, turn: jax.Array) -> tuple[jax.Array, jax.Array]:
        client, count = turns[turn], share_of_all + (turn < rest)
        own_key = jax.random.fold_in(key_draws, client)
        counts = draw_labels(own_key, log_shares[client], left, count, -(-n // num_clients))
        return left - counts, counts

    _, taken = jax.lax.scan(take, jnp.bincount(labels, length=num_classes), jnp.arange(num_clients))
    counts = jnp.zeros_like(taken).at[turns].set(taken)
    return deal_by_counts(key_rank, labels, counts)
