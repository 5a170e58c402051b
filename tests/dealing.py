"""Samples dealt to clients by a member of `PARTITIONS`."""

import jax.numpy as jnp
import numpy as np

from mdfl_jax.data.partition import PARTITIONS, PartitionSettings


def deal(name, key, labels, num_clients, num_classes=0, owners=None, places=None, **numbers):
    """The owner of each sample; the natural owners are numbered without gaps."""
    given = PARTITIONS.numbers(name)(**numbers)
    typed = given if name == "table" else given.typed()
    natural = (None, 0) if owners is None else (owners, int(np.max(owners)) + 1)
    settings = PartitionSettings(num_clients, num_classes or int(np.max(labels)) + 1, typed, *natural, places)
    return PARTITIONS[name](key, jnp.asarray(labels), settings)


def counts_of(owner, labels, num_clients, num_classes):
    """Samples by client and label, [N, C]; those that nobody owns are left out."""
    table = np.zeros((num_clients + 1, num_classes), int)
    np.add.at(table, (owner, labels), 1)
    return table[:num_clients]
