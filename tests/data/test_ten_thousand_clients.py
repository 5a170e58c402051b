"""Every partition for ten thousand clients computes arrays that are linear in the clients and in the samples."""

import jax
import numpy as np
import pytest
from array_sizes import largest

from mdfl_jax.data.batching import cut_blocks, index_clients
from mdfl_jax.data.partition import PARTITIONS, PartitionSettings

CLIENTS, SAMPLES, CLASSES, OWNERS = 10_000, 60_000, 10, 20_000
LINEAR = 2 * (SAMPLES + CLIENTS * CLASSES)
TABLES = {"table": (SAMPLES,), "table of counts": (CLIENTS, CLASSES)}


@pytest.mark.parametrize("name", [*PARTITIONS, "table of counts"])
def test_no_array_is_of_all_clients_and_samples(name):
    member = name.removesuffix(" of counts")
    given = PARTITIONS.numbers(member)()

    def program(key, labels, places, owner_of, table):
        typed = type(given)(table=table) if name in TABLES else given.typed()
        settings = PartitionSettings(CLIENTS, CLASSES, typed, owner_of, OWNERS, places)
        owner = PARTITIONS[member](key, labels, settings)
        return cut_blocks(index_clients(owner, labels, CLIENTS, CLASSES), 8)

    labels, owner_of = (np.zeros(SAMPLES, np.int32) for _ in range(2))
    places, table = (np.zeros(shape, np.float32) for shape in ((CLIENTS, 2), TABLES.get(name, (1,))))
    entries, shape = largest(program, jax.random.key(5), labels, places, owner_of, table)
    assert entries <= LINEAR, shape
