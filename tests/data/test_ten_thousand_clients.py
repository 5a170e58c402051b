"""Every partition for ten thousand clients: each sample as the rule says, in arrays that are linear in both numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_sizes import largest

from mdfl_jax.data.batching import cut_blocks, draw_minibatch, index_clients
from mdfl_jax.data.partition import PARTITIONS, PartitionSettings

CLIENTS, SAMPLES, CLASSES, OWNERS = 10_000, 60_000, 10, 20_000
LINEAR = 2 * (SAMPLES + CLIENTS * CLASSES)
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(CLASSES), SAMPLES // CLASSES)).astype(np.int32)
PLACES = np.random.default_rng(1).random((CLIENTS, 2)).astype(np.float32)
OWNER_OF = np.random.default_rng(2).permutation(np.arange(SAMPLES) % OWNERS).astype(np.int32)
TABLES = {
    "table": np.random.default_rng(3).integers(-1, CLIENTS, SAMPLES),
    "table of counts": np.random.default_rng(4).multinomial(5_900, np.full(CLIENTS, 1 / CLIENTS), CLASSES).T,
}


def program_of(name):
    """The program that divides samples among the clients, and its arguments."""
    member = name.removesuffix(" of counts")
    given = PARTITIONS.numbers(member)()

    def program(key, labels, places, owner_of, table):
        typed = type(given)(table=table) if name in TABLES else given.typed()
        return PARTITIONS[member](key, labels, PartitionSettings(CLIENTS, CLASSES, typed, owner_of, OWNERS, places))

    table = TABLES.get(name, np.zeros(1)).astype(np.float32)
    return program, (jax.random.key(5), LABELS, PLACES, OWNER_OF, table)


@pytest.mark.parametrize("name", [*PARTITIONS, "table of counts"])
def test_no_array_is_of_all_clients_and_samples(name):
    program, args = program_of(name)
    entries, shape = largest(program, *args)
    assert entries <= LINEAR, shape


@pytest.mark.long
def test_shards():
    """Twenty thousand runs of three samples in the order of the labels, two for each client."""
    program, args = program_of("shards")
    owner = np.asarray(jax.jit(program)(*args))
    runs = owner[np.argsort(LABELS, kind="stable")].reshape(-1, 3)
    assert (runs == runs[:, :1]).all()
    assert (np.bincount(runs[:, 0], minlength=CLIENTS) == 2).all()


def test_index_blocks_and_minibatches():
    """Each sample in one block of its client; a client without samples has no block, and a minibatch that is masked."""
    owner = np.random.default_rng(6).zipf(1.5, SAMPLES).astype(np.int64) % CLIENTS  # one client holds a third of all

    def program(owner, labels, key):
        index = index_clients(owner, labels, CLIENTS, CLASSES)
        drawn = jax.vmap(lambda i: draw_minibatch(jax.random.fold_in(key, i), index, i, 4))(jnp.arange(CLIENTS))
        return index, cut_blocks(index, 8), drawn

    args = (owner.astype(np.int32), LABELS, jax.random.key(0))
    assert largest(program, *args)[0] <= LINEAR
    _, blocks, drawn = jax.device_get(jax.jit(program)(*args))
    sizes = np.bincount(owner, minlength=CLIENTS)
    np.testing.assert_array_equal(np.sort(blocks.sample[blocks.mask]), np.arange(SAMPLES))
    assert (owner[blocks.sample] == blocks.client[:, None])[blocks.mask].all()
    assert (owner[drawn] == np.arange(CLIENTS)[:, None])[sizes > 0].all()
