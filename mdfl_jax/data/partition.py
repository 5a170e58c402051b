"""Partitions: they divide the training samples among the clients.

Each function takes a key and the labels, and returns ``owner`` [n] int32, the client that owns each sample (-1: no
client). All can be compiled by jit with static counts; alpha may be traced. `PARTITIONS` holds all of them under one
signature.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError
from mdfl_jax.numbers import Numbers, number
from mdfl_jax.registry import Registry


class PartitionSettings(NamedTuple):
    """The settings of a partition.

    Attributes:
      num_clients: N.
      num_classes: C.
      numbers: the numbers of the partition, an instance of the class that it is registered with. Numbers that are not
        static are traced.
    """

    num_clients: int
    num_classes: int
    numbers: Any = Numbers()


class PartitionNumbers(Numbers):
    """The base class of a partition's numbers. It has no numbers itself."""

    def check_dataset(self, num_classes: int, dataset: str) -> None:
        """Check that a data set can be divided with these numbers.

        Args:
          num_classes: C.
          dataset: the name of the data set, for the error.

        Raises:
          UserError: if it cannot.
        """


class DirichletNumbers(PartitionNumbers):
    """The numbers of the partition ``dirichlet``."""

    alpha: float = number(0.05, "concentration of the Dirichlet distribution", above=0)


class ClassesNumbers(PartitionNumbers):
    """The numbers of the partition ``classes_per_client``."""

    classes_per_client: int = number(2, "classes that each client holds", static=True, at_least=1)

    def check_dataset(self, num_classes: int, dataset: str) -> None:
        """Check that the data set has at least ``classes_per_client`` classes."""
        if self.classes_per_client > num_classes:
            raise UserError(
                f"data.classes_per_client is {self.classes_per_client}; {dataset} has {num_classes} classes"
            )


class ShardsNumbers(PartitionNumbers):
    """The numbers of the partition ``shards``."""

    shards_per_client: int = number(2, "shards that each client holds", static=True, at_least=1)


PARTITIONS: Registry[Callable[[jax.Array, jax.Array, PartitionSettings], jax.Array]] = Registry(
    "partition", PartitionNumbers
)


def _shuffled_rank(key: jax.Array, group: jax.Array) -> jax.Array:
    """Draw a random order within each group, and return each sample's rank in its group: [n] int32, from 0."""
    n = group.shape[0]
    shuffled = jax.random.permutation(key, n)
    order = shuffled[jnp.argsort(group[shuffled], stable=True)]  # grouped, random within the group
    sorted_group = group[order]
    first = jnp.searchsorted(sorted_group, sorted_group, side="left")
    return jnp.zeros(n, jnp.int32).at[order].set((jnp.arange(n) - first).astype(jnp.int32))


def iid(key: jax.Array, labels: jax.Array, num_clients: int) -> jax.Array:
    """Shuffle the samples and divide them evenly among the clients; the numbers of samples differ by at most one.

    Args:
      key: typed key.
      labels: [n] int. Only their number is used.
      num_clients: N.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    place = jax.random.permutation(key, labels.shape[0])
    return (place % num_clients).astype(jnp.int32)


def dirichlet(
    key: jax.Array, labels: jax.Array, num_clients: int, alpha: jax.Array | float, num_classes: int | None = None
) -> jax.Array:
    """Draw a label-Dirichlet partition: each class is divided among the clients by shares from Dir(alpha, ..., alpha).

    The samples of a class are shuffled and cut at the cumulative shares, so a client holds its share of the class,
    rounded up or down. Clients therefore hold unequal numbers of samples, and a client may hold none. Another
    convention draws the shares of each CLIENT over the classes and keeps the numbers equal. MADFL and DADFL speak of
    unequal numbers, so their convention is the one above.

    Args:
      key: typed key.
      labels: [n] int, labels from 0.
      num_clients: N.
      alpha: the concentration, > 0. Smaller values make the shares more unequal.
      num_classes: an upper bound of the number of labels. If it is left out, it is computed from the labels, or is
        1,024 if they are traced. The result does not depend on it.

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
    # All numbers below are whole, so that no sample is lost to rounding. In the order of sorted labels, the samples of
    # class c that client i gets end at ends[c, i]. cummax is needed since a parallel cumsum of floats may decrease.
    cuts = jnp.round(jnp.cumsum(shares, axis=1) * size[:, None]).astype(jnp.int32)
    cuts = jnp.minimum(jax.lax.cummax(cuts, axis=1), size[:, None].astype(jnp.int32)).at[:, -1].set(size)
    ends = (class_end - size)[:, None] + cuts
    place = (class_end - size)[labels] + _shuffled_rank(key_rank, labels)
    return (jnp.searchsorted(ends.reshape(-1), place, side="right") % num_clients).astype(jnp.int32)


def classes_per_client(
    key: jax.Array, labels: jax.Array, num_clients: int, num_classes: int, classes_per_client: int
) -> jax.Array:
    """Give every client samples of the same number of classes (PAME V, "C classes per node").

    Classes are given to the clients in a random cyclic order, so the numbers of clients that hold a class differ by at
    most one. If ``classes_per_client`` divides C, there are C / classes_per_client different sets of classes. The
    samples of a class are divided evenly among the clients that hold it. If N * classes_per_client < C, some classes
    are held by no client; their samples have owner -1 and are not used.

    Args:
      key: typed key.
      labels: [n] int in 0..C-1.
      num_clients: N.
      num_classes: C.
      classes_per_client: between 1 and C.

    Returns:
      owner: [n] int32 in -1..N-1.
    """
    key_classes, key_rank = jax.random.split(key)
    order = jax.random.permutation(key_classes, num_classes)
    dealt = (jnp.arange(num_clients)[:, None] * classes_per_client + jnp.arange(classes_per_client)) % num_classes
    holds = jnp.zeros((num_clients, num_classes), bool).at[jnp.arange(num_clients)[:, None], order[dealt]].set(True)
    num_holders = jnp.sum(holds, axis=0)
    rank = _shuffled_rank(key_rank, labels)
    turn = rank % jnp.maximum(num_holders[labels], 1)  # the sample goes to this one of the clients that hold its class
    nth_holder = jnp.argsort(~holds, axis=0, stable=True)  # [N, C]: each column begins with the holders of its class
    owner = nth_holder[turn, labels]
    return jnp.where(num_holders[labels] > 0, owner, -1).astype(jnp.int32)


def shards(key: jax.Array, labels: jax.Array, num_clients: int, shards_per_client: int) -> jax.Array:
    """Sort the samples by label, cut them into N * shards_per_client shards, and give each client that many shards.

    This is the pathological non-IID split of McMahan et al. (AISTATS 2017). THESIS uses it with four shards per client.

    Args:
      key: typed key.
      labels: [n] int.
      num_clients: N.
      shards_per_client: at least 1.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    n, num_shards = labels.shape[0], num_clients * shards_per_client
    order = jnp.argsort(labels, stable=True)
    # Shard k holds the sorted samples floor(k n / K) to floor((k+1) n / K) - 1, with K shards. The ends are computed in
    # Python, since n * K may not fit in 32 bits.
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
