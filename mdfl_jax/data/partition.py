"""Partitions: which client owns which training sample.

Each function takes a key and the labels and returns ``owner`` [n] int32, the client of every sample (-1: nobody). All
are jit-able with the counts static; alpha may be traced. They are listed in `PARTITIONS` under one signature.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError
from mdfl_jax.numbers import Numbers, number
from mdfl_jax.registry import Registry


class PartitionSettings(NamedTuple):
    """What a partition is given.

    Attributes:
      num_clients: N.
      num_classes: C.
      numbers: of the partition, of the class that it is registered with; what is not static is traced.
    """

    num_clients: int
    num_classes: int
    numbers: Any = Numbers()


class PartitionNumbers(Numbers):
    """What is asked of a partition's numbers; the base class has none."""

    def check_dataset(self, num_classes: int, dataset: str) -> None:
        """Checks that a data set can be divided so.

        Args:
          num_classes: C.
          dataset: its name.

        Raises:
          UserError: where it cannot.
        """


class DirichletNumbers(PartitionNumbers):
    """Of the label-Dirichlet partition."""

    alpha: float = number(0.05, "concentration of the Dirichlet distribution", above=0)


class ClassesNumbers(PartitionNumbers):
    """Of the partition into equal numbers of classes."""

    classes_per_client: int = number(2, "classes that each client holds", static=True, at_least=1)

    def check_dataset(self, num_classes: int, dataset: str) -> None:
        """As many classes as a client should hold."""
        if self.classes_per_client > num_classes:
            raise UserError(
                f"data.classes_per_client is {self.classes_per_client}; {dataset} has {num_classes} classes"
            )


class ShardsNumbers(PartitionNumbers):
    """Of the partition into label shards."""

    shards_per_client: int = number(2, "shards that each client holds", static=True, at_least=1)


PARTITIONS: Registry[Callable[[jax.Array, jax.Array, PartitionSettings], jax.Array]] = Registry(
    "partition", PartitionNumbers
)


def _shuffled_rank(key: jax.Array, group: jax.Array) -> jax.Array:
    """Rank of every sample among those of its group, in random order: [n] int32, from 0."""
    n = group.shape[0]
    shuffled = jax.random.permutation(key, n)
    order = shuffled[jnp.argsort(group[shuffled], stable=True)]  # grouped, random within the group
    sorted_group = group[order]
    first = jnp.searchsorted(sorted_group, sorted_group, side="left")
    return jnp.zeros(n, jnp.int32).at[order].set((jnp.arange(n) - first).astype(jnp.int32))


def iid(key: jax.Array, labels: jax.Array, num_clients: int) -> jax.Array:
    """Samples shuffled and dealt out evenly; sizes differ by one at most."""
    place = jax.random.permutation(key, labels.shape[0])
    return (place % num_clients).astype(jnp.int32)


def dirichlet(
    key: jax.Array, labels: jax.Array, num_clients: int, alpha: jax.Array | float, num_classes: int | None = None
) -> jax.Array:
    """Label-Dirichlet: for each class, its shares over the clients are drawn from Dir(alpha, ..., alpha).

    The convention: a class's samples are shuffled and cut at the cumulative shares, so a client holds its share of the
    class rounded up or down. Sizes are therefore unequal, and a client may hold nothing. (Another convention draws
    each CLIENT's shares over classes and keeps sizes equal; MADFL and DADFL speak of unequal sizes, hence this one.)

    Args:
      key: typed key.
      labels: [n] int, labels from 0.
      num_clients: N.
      alpha: concentration, > 0; smaller is more unequal.
      num_classes: a bound of the labels. Left out, it is read off the labels, or taken as 1,024 where they are traced;
        the result does not depend on it.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    if num_classes is None:
        num_classes = 1024 if isinstance(labels, jax.core.Tracer) else int(jnp.max(labels)) + 1
    key_rank, key_shares = jax.random.split(key)
    concentration = jnp.full(num_clients, alpha, jnp.float32)
    shares = jax.vmap(lambda c: jax.random.dirichlet(jax.random.fold_in(key_shares, c), concentration))(
        jnp.arange(num_classes)
    )
    size = jnp.bincount(labels, length=num_classes)
    class_end = jnp.cumsum(size)
    # Whole numbers from here on: client i's run of class c ends at ends[c, i] in the order of sorted labels, so that
    # no sample is lost to rounding. (cummax, since a parallel cumsum of floats need not be monotone.)
    cuts = jnp.round(jnp.cumsum(shares, axis=1) * size[:, None]).astype(jnp.int32)
    cuts = jnp.minimum(jax.lax.cummax(cuts, axis=1), size[:, None].astype(jnp.int32)).at[:, -1].set(size)
    ends = (class_end - size)[:, None] + cuts
    place = (class_end - size)[labels] + _shuffled_rank(key_rank, labels)
    return (jnp.searchsorted(ends.reshape(-1), place, side="right") % num_clients).astype(jnp.int32)


def classes_per_client(
    key: jax.Array, labels: jax.Array, num_clients: int, num_classes: int, classes_per_client: int
) -> jax.Array:
    """Every client holds samples of the same number of classes (PAME V, "C classes per node").

    Classes are dealt in a random cyclic order, so each is held by as many clients as any other, give or take one (where
    ``classes_per_client`` divides C, clients fall into C / classes_per_client groups of equal sets). A class's samples
    are divided evenly among its holders. A class that nobody holds (N * classes_per_client < C) has owner -1: its
    samples are not used.

    Args:
      key: typed key.
      labels: [n] int in 0..num_classes-1.
      num_clients: N.
      num_classes: C.
      classes_per_client: between 1 and C.
    """
    key_classes, key_rank = jax.random.split(key)
    order = jax.random.permutation(key_classes, num_classes)
    dealt = (jnp.arange(num_clients)[:, None] * classes_per_client + jnp.arange(classes_per_client)) % num_classes
    holds = jnp.zeros((num_clients, num_classes), bool).at[jnp.arange(num_clients)[:, None], order[dealt]].set(True)
    num_holders = jnp.sum(holds, axis=0)
    rank = _shuffled_rank(key_rank, labels)
    turn = rank % jnp.maximum(num_holders[labels], 1)  # which of the class's holders takes the sample
    nth_holder = jnp.argsort(~holds, axis=0, stable=True)  # [N, C]: the holders of a class first, in order
    owner = nth_holder[turn, labels]
    return jnp.where(num_holders[labels] > 0, owner, -1).astype(jnp.int32)


def shards(key: jax.Array, labels: jax.Array, num_clients: int, shards_per_client: int) -> jax.Array:
    """Label shards: samples sorted by label, cut into N * shards_per_client runs, that many dealt to each client.

    The pathological non-IID split of McMahan et al. (AISTATS 2017), which THESIS uses with four shards a client.
    """
    n, num_shards = labels.shape[0], num_clients * shards_per_client
    order = jnp.argsort(labels, stable=True)
    # Shard k holds the sorted places floor(k n / K) .. floor((k+1) n / K) - 1, without n * K in 32-bit arithmetic.
    ends = jnp.array([(k + 1) * n // num_shards for k in range(num_shards)], jnp.int32)
    shard = jnp.searchsorted(ends, jnp.arange(n, dtype=jnp.int32), side="right")
    taker = jax.random.permutation(key, num_shards) // shards_per_client
    return jnp.zeros(n, jnp.int32).at[order].set(taker[shard].astype(jnp.int32))


@PARTITIONS.register("iid", doc="Samples are shuffled and dealt out evenly.")
def _iid(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    return iid(key, labels, settings.num_clients)


@PARTITIONS.register("dirichlet", DirichletNumbers, "Each label's shares over the clients are of a Dirichlet law.")
def _dirichlet(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    return dirichlet(key, labels, settings.num_clients, settings.numbers.alpha, settings.num_classes)


@PARTITIONS.register("classes_per_client", ClassesNumbers, "Every client holds the same number of classes.")
def _classes_per_client(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    return classes_per_client(
        key, labels, settings.num_clients, settings.num_classes, settings.numbers.classes_per_client
    )


@PARTITIONS.register("shards", ShardsNumbers, "Runs of the samples sorted by label, so many a client.")
def _shards(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    return shards(key, labels, settings.num_clients, settings.numbers.shards_per_client)
