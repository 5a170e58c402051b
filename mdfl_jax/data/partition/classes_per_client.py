"""The partition ``classes_per_client``: every client holds the same number of classes."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import number
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.data.partition import PARTITIONS, PartitionNumbers, PartitionSettings, shuffled_rank


class ClassesNumbers(PartitionNumbers):
    """The numbers of the partition ``classes_per_client``."""

    classes_per_client: int = number(2, "classes that each client holds", static=True, at_least=1)

    def check_dataset(self, dataset: Dataset, num_clients: int) -> None:
        """Check that the data set has at least ``classes_per_client`` classes."""
        held, known = self.classes_per_client, dataset.num_strata
        if held > known:
            raise UserError(f"data.classes_per_client is {held}; {dataset.name} has {known} classes")


@PARTITIONS.register(
    "classes_per_client",
    ClassesNumbers,
    formula="client i holds the classes (i c + k) mod C, k < c = classes_per_client, of a random order of the classes",
    cite="pame: V",
)
def classes_per_client(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Give every client samples of the same number of classes.

    Classes are given to the clients in a random cyclic order, so the numbers of clients that hold a class differ by at
    most one. If ``classes_per_client`` divides C, there are C / classes_per_client different sets of classes. The
    samples of a class are divided evenly among the clients that hold it. If N * classes_per_client < C, some classes
    are held by no client; their samples have owner -1 and are not used.

    Returns:
      owner: [n] int32 in -1..N-1.
    """
    num_clients, num_classes, held = settings.num_clients, settings.num_classes, settings.numbers.classes_per_client
    key_classes, key_rank = jax.random.split(key)
    order = jax.random.permutation(key_classes, num_classes)
    dealt = (jnp.arange(num_clients)[:, None] * held + jnp.arange(held)) % num_classes
    holds = jnp.zeros((num_clients, num_classes), bool).at[jnp.arange(num_clients)[:, None], order[dealt]].set(True)
    num_holders = jnp.sum(holds, axis=0)
    rank = shuffled_rank(key_rank, labels)
    turn = rank % jnp.maximum(num_holders[labels], 1)  # the sample goes to this one of the clients that hold its class
    nth_holder = jnp.argsort(~holds, axis=0, stable=True)  # [N, C]: each column begins with the holders of its class
    owner = nth_holder[turn, labels]
    return jnp.where(num_holders[labels] > 0, owner, -1).astype(jnp.int32)
