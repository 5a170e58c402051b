"""The partition ``by_owner``: the persons or devices that the samples come from are dealt to the clients, whole."""

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.data.partition import PARTITIONS, PartitionNumbers, PartitionSettings


class OwnerNumbers(PartitionNumbers):
    """The class of numbers of the partition ``by_owner``, which has none."""

    def check_dataset(self, dataset: Dataset, num_clients: int) -> None:
        """Check that the data set says where its samples come from, and that there is an owner for each client."""
        if dataset.client is None:
            raise UserError(f"data.partition is by_owner; {dataset.name} has no array 'client' (docs/data.md)")
        owners = len(np.unique(dataset.client))
        if owners < num_clients:
            raise UserError(
                f"data.partition is by_owner; the training samples of {dataset.name} come from {owners} owners, fewer "
                f"than network.num_clients, which is {num_clients}"
            )


@PARTITIONS.register(
    "by_owner",
    OwnerNumbers,
    formula="in a random order of the owners, owner k goes to client k mod N",
    cite="caldas2018",
)
def by_owner(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Deal the natural owners of the samples to the clients, so that all samples of an owner stay together.

    Data sets made for federated learning have such owners, for example the writers of FEMNIST. The numbers of owners
    that two clients get differ by at most one.

    Raises:
      UserError: if the natural owners are not known.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    del labels
    if settings.natural_owner is None:
        raise UserError("data.partition is by_owner; the data set has no array 'client' (docs/data.md)")
    client_of = jax.random.permutation(key, settings.num_natural_owners) % settings.num_clients
    return client_of[settings.natural_owner].astype(jnp.int32)
