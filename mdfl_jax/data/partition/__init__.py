"""Partitions: they divide the training samples among the clients.

Each partition is one file of this folder, which registers it in `PARTITIONS`. Its function takes a typed key, the
labels [n] int in 0..C-1 and the `PartitionSettings`, and returns ``owner`` [n] int32, the client in 0..N-1 that owns
each sample (-1: no client). All can be compiled by jit with static counts; numbers such as alpha may be traced. This
module has what partitions share: their settings, and functions that shuffle the samples of each class and cut them at
whole numbers of samples.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbering import numbered
from mdfl_jax.core.numbers import Numbers, Setting, checked, number
from mdfl_jax.core.registry import Registry
from mdfl_jax.data.dataset import Dataset


class PartitionSettings(NamedTuple):
    """The settings of a partition.

    Attributes:
      num_clients: N.
      num_classes: C.
      numbers: the numbers of the partition, an instance of the class that it is registered with. Numbers that are not
        static are traced.
      natural_owner: [n] int32 in 0..K-1, the person or device that each sample comes from; None if the data set does
        not say it.
      num_natural_owners: K, which is static; 0 if the data set does not say it.
      places: [N, 2] float32, the places of the clients before the first round; None unless the class of the numbers
        sets ``needs_places``.
    """

    num_clients: int
    num_classes: int
    numbers: Any = Numbers()
    natural_owner: jax.Array | None = None
    num_natural_owners: int = 0
    places: jax.Array | None = None


class PartitionNumbers(Numbers):
    """The base class of a partition's numbers. It has no numbers itself.

    Attributes:
      needs_places: whether the partition reads ``settings.places``. The places are then drawn before the data.
    """

    needs_places: ClassVar[bool] = False

    def check_dataset(self, dataset: Dataset, num_clients: int) -> None:
        """Check that a data set can be divided with these numbers.

        Args:
          dataset: the data set. Its training samples are those that are divided, without the validation samples.
          num_clients: N.

        Raises:
          UserError: if it cannot.
        """


class DirichletNumbers(PartitionNumbers):
    """The numbers of the partitions that draw labels from a Dirichlet distribution."""

    alpha: float = number(0.05, "concentration of the Dirichlet distribution", above=0)


PARTITIONS: Registry[Callable[[jax.Array, jax.Array, PartitionSettings], jax.Array]] = Registry(
    "partition", PartitionNumbers, "mdfl_jax.data.partition", contrib="partitions"
)
"""The partitions by name: (key, labels [n], settings) -> owner [n] int32, with -1 for a sample that nobody holds."""


def partition(
    rule: str, labels: Any, clients: int, seed: int = 0, owner: Any = None, places: Any = None, **numbers: Any
) -> jax.Array:
    """Divide samples among clients by a rule of `PARTITIONS`.

    Args:
      rule: the name of the rule, such as "dirichlet".
      labels: [n] int from 0, the label of each sample.
      clients: N.
      seed: the seed of the draw, or a typed key.
      owner: [n] int, the person or device that each sample comes from, for the rule ``by_owner``.
      places: [N, 2] places of the clients, for the rule ``by_place``.
      **numbers: the hyperparameters of the rule, by name.

    Returns:
      owner: [n] int32, the client in 0..N-1 that holds each sample; -1 for a sample that nobody holds.

    Raises:
      UserError: for an unknown rule or hyperparameter, or for samples that cannot be divided so.

    >>> sorted(partition("shards", [0, 0, 1, 1], clients=2, shards_per_client=1).tolist())
    [0, 0, 1, 1]
    """
    found = np.asarray(labels)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not found.size or found.min() < 0:
        raise UserError(f"labels is {found.dtype} {list(found.shape)}; it must be [n] whole numbers from 0")
    if not isinstance(clients, int | np.integer) or isinstance(clients, bool) or clients < 1:
        raise UserError(f"clients is {clients!r}; it must be a whole number, at least 1")
    natural = None if owner is None else numbered(owner)[1].astype(np.int32)
    if natural is not None and natural.shape != found.shape:
        raise UserError(f"owner is {list(np.shape(owner))}; it must be [{len(found)}], one for each label")
    made = checked(rule, PARTITIONS.numbers(rule), numbers, "data.")
    if made.needs_places if places is None else np.shape(places) != (clients, 2):
        shape = "not given" if places is None else list(np.shape(places))
        raise UserError(f"places is {shape}; it must be [{clients}, 2], the places of the clients")
    num_classes, num_owners = int(found.max()) + 1, 0 if natural is None else int(natural.max()) + 1
    made.check(Setting(rule, clients))
    made.check_dataset(Dataset("labels", found, found, found, found, num_classes, client=natural), clients)
    settings = PartitionSettings(
        clients, num_classes, made.typed(), None if natural is None else jnp.asarray(natural), num_owners, places
    )
    key = seed if isinstance(seed, jax.Array) else jax.random.key(seed)
    return PARTITIONS[rule](key, jnp.asarray(found), settings)


def shuffled_order(key: jax.Array, group: jax.Array) -> jax.Array:
    """Return the samples [n] int32 in the order of their groups, and in a random order within each group."""
    shuffled = jax.random.permutation(key, group.shape[0])
    return shuffled[jnp.argsort(group[shuffled], stable=True)]


def shuffled_rank(key: jax.Array, group: jax.Array) -> jax.Array:
    """Draw a random order within each group, and return each sample's rank in its group: [n] int32, from 0."""
    n = group.shape[0]
    order = shuffled_order(key, group)
    sorted_group = group[order]
    first = jnp.searchsorted(sorted_group, sorted_group, side="left")
    return jnp.zeros(n, jnp.int32).at[order].set((jnp.arange(n) - first).astype(jnp.int32))


def cuts_of_shares(shares: jax.Array, size: jax.Array) -> jax.Array:
    """Turn the clients' shares of groups of samples into whole numbers of samples.

    Args:
      shares: [C, N] float, the shares of the N clients in each of C groups. Each row sums to one, up to rounding.
      size: [C] int, the number of samples in each group.

    Returns:
      cuts: [C, N] int32. In the shuffled group c, client i gets the samples from cuts[c, i - 1] (0 for i = 0) to
      cuts[c, i] - 1. The last cut is the size of the group, so no sample is lost to rounding.
    """
    cuts = jnp.round(jnp.cumsum(shares, axis=1) * size[:, None]).astype(jnp.int32)
    # cummax is needed since a parallel cumsum of floats may decrease.
    return jnp.minimum(jax.lax.cummax(cuts, axis=1), size[:, None].astype(jnp.int32)).at[:, -1].set(size)


def deal_by_cuts(key: jax.Array, group: jax.Array, cuts: jax.Array) -> jax.Array:
    """Shuffle the samples of each group, and give each client those between its cuts.

    Args:
      key: typed key.
      group: [n] int in 0..C-1, the group of each sample.
      cuts: [C, N] int, from `cuts_of_shares` or a cumulative sum of counts. Rows do not decrease, and they end at the
        size of the group or below.

    Returns:
      owner: [n] int32 in -1..N-1. The samples of a group behind its last cut have the owner -1.
    """
    num_clients = cuts.shape[1]
    group_size = jnp.bincount(group, length=cuts.shape[0])
    group_end = jnp.cumsum(group_size)
    # In the order of sorted groups, the samples of group c that client i gets end at ends[c, i]. The column after those
    # of the clients is for the samples that nobody gets.
    ends = jnp.column_stack([(group_end - group_size)[:, None] + cuts, group_end])
    column = jnp.searchsorted(ends.reshape(-1), jnp.arange(group.shape[0]), side="right") % (num_clients + 1)
    owner = jnp.where(column < num_clients, column, -1).astype(jnp.int32)
    return jnp.zeros_like(owner).at[shuffled_order(key, group)].set(owner)


class Turns(NamedTuple):
    """The draws of partitions in which the clients take their samples in turns, by proportions of their own.

    Attributes:
      order: [N] int, the clients in a random order.
      log_shares: [N, C] float, the logarithms of each client's proportions of the labels, up to a constant for each
        client.
      key_draws: typed key for the labels that the clients draw.
      key_rank: typed key for the order of the samples of a label.
    """

    order: jax.Array
    log_shares: jax.Array
    key_draws: jax.Array
    key_rank: jax.Array


def draw_turns(key: jax.Array, settings: PartitionSettings) -> Turns:
    """Draw the order of the clients and the proportions of each from Dir(alpha, ..., alpha)."""
    num_clients = settings.num_clients
    key_turns, key_shares, key_draws, key_rank = jax.random.split(key, 4)
    order = jax.random.permutation(key_turns, num_clients)
    shape = (num_clients, settings.num_classes)
    log_shares = jax.random.loggamma(key_shares, settings.numbers.alpha, shape)  # Dir, up to a factor for each row
    return Turns(order, log_shares, key_draws, key_rank)


def deal_by_counts(key: jax.Array, group: jax.Array, counts: jax.Array) -> jax.Array:
    """Shuffle the samples of each group, and give each client as many of it as ``counts`` [N, C] says."""
    return deal_by_cuts(key, group, jnp.cumsum(counts, axis=0).T)
