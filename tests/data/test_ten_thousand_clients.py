"""Every partition for ten thousand clients: each sample as the rule says, in arrays that are linear in both numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_sizes import largest
from dealing import counts_of

from mdfl_jax.data.batching import cut_blocks, draw_minibatch, index_clients
from mdfl_jax.data.partition import PARTITIONS, PartitionSettings
from mdfl_jax.data.partition.dirichlet import ORDER
from mdfl_jax.tasks.scoring import client_of_owner

CLIENTS, SAMPLES, CLASSES, OWNERS = 10_000, 60_000, 10, 20_000
LINEAR = 2 * (SAMPLES + CLIENTS * CLASSES)
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(CLASSES), SAMPLES // CLASSES)).astype(np.int32)
PLACES = np.random.default_rng(1).random((CLIENTS, 2)).astype(np.float32)
OWNER_OF = np.random.default_rng(2).permutation(np.arange(SAMPLES) % OWNERS).astype(np.int32)
TABLES = {
    "table": np.random.default_rng(3).integers(-1, CLIENTS, SAMPLES),
    "table of counts": np.random.default_rng(4).multinomial(5_900, np.full(CLIENTS, 1 / CLIENTS), CLASSES).T,
}


def program_of(name, labels=LABELS, **numbers):
    """The program that divides samples among the clients, and its arguments."""
    member = name.removesuffix(" of counts")
    given = PARTITIONS.numbers(member)(**numbers)

    def program(key, labels, places, owner_of, table):
        typed = type(given)(table=table) if name in TABLES else given.typed()
        return PARTITIONS[member](key, labels, PartitionSettings(CLIENTS, CLASSES, typed, owner_of, OWNERS, places))

    table = TABLES.get(name, np.zeros(1)).astype(np.float32)
    return program, (jax.random.key(5), labels, PLACES, OWNER_OF[: len(labels)], table)


@pytest.mark.parametrize("name", [*PARTITIONS, "table of counts"])
def test_no_array_is_of_all_clients_and_samples(name):
    program, args = program_of(name)
    entries, shape = largest(program, *args)
    assert entries <= LINEAR, shape


def divide(name, labels=LABELS, **numbers):
    """The owner of each sample, and the counts by client and label."""
    program, args = program_of(name, labels, **numbers)
    owner = np.asarray(jax.jit(program)(*args))
    assert owner.shape == labels.shape
    assert owner.min() >= -1
    assert owner.max() < CLIENTS
    return owner, counts_of(owner, labels, CLIENTS, CLASSES)


def even(counts):
    """Whether all clients hold six samples."""
    return (counts.sum(axis=1) == SAMPLES // CLIENTS).all()


def pure(counts):
    """The share of the clients whose samples all have one label."""
    return ((counts > 0).sum(axis=1) == 1).mean()


def test_iid():
    _, counts = divide("iid")
    assert even(counts)
    assert pure(counts) < 0.001


@pytest.mark.long
def test_shards():
    """Twenty thousand runs of three samples in the order of the labels, two for each client."""
    owner, counts = divide("shards")
    runs = owner[np.argsort(LABELS, kind="stable")].reshape(-1, 3)
    assert (runs == runs[:, :1]).all()
    assert (np.bincount(runs[:, 0], minlength=CLIENTS) == 2).all()
    assert even(counts)


@pytest.mark.long
@pytest.mark.parametrize("name", ["dirichlet_per_client", "dirichlet_balanced"])
def test_dirichlet_of_clients(name):
    """Six samples each: of one label with a small concentration, of several with a large one."""
    _, few = divide(name, alpha=0.01)
    _, many = divide(name, alpha=100.0)
    assert even(few)
    assert even(many)
    assert pure(few) > 0.6  # classes run out before the end
    assert pure(many) < 0.01


@pytest.mark.long
def test_dirichlet():
    """The shares that the key draws, of each label: a client's samples are its share, rounded in the drawn order."""
    _, counts = divide("dirichlet", alpha=0.5)
    key, key_order = jax.random.split(jax.random.key(5))[1], jax.random.fold_in(jax.random.key(5), ORDER)
    for label in range(CLASSES):
        share = jax.random.dirichlet(jax.random.fold_in(key, label), jnp.full(CLIENTS, 0.5, jnp.float32))
        order = jax.random.permutation(jax.random.fold_in(key_order, label), CLIENTS)  # fewer samples than clients
        cuts = np.round(np.cumsum(np.asarray(share, np.float64)[order]) * (SAMPLES // CLASSES))
        assert np.abs(np.cumsum(counts[order, label]) - cuts).max() <= 1
    assert counts.sum() == SAMPLES


def test_by_owner():
    """Two whole owners each."""
    owner, counts = divide("by_owner")
    of_owner = np.full(OWNERS, -1)
    of_owner[OWNER_OF] = owner
    assert (of_owner[OWNER_OF] == owner).all()
    assert (np.bincount(of_owner, minlength=CLIENTS) == 2).all()
    assert counts.sum() == SAMPLES


@pytest.mark.parametrize("name", TABLES)
def test_table(name):
    owner, counts = divide(name)
    if name == "table":
        np.testing.assert_array_equal(owner, TABLES[name])
    else:
        np.testing.assert_array_equal(counts, TABLES[name])
        assert (owner < 0).sum() == SAMPLES - TABLES[name].sum()


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in PARTITIONS if name != "table"])
def test_more_clients_than_samples(name):
    """Each sample has one owner also then, and the clients without samples are those that are left."""
    owner, counts = divide(name, LABELS[:2_000])
    assert counts.sum() == 2_000 - (owner < 0).sum()
    assert (owner >= 0).all()
    sizes = counts.sum(axis=1)
    if name in ("iid", "dirichlet_balanced", "dirichlet_per_client", "shards"):
        assert sizes.max() == (2 if name == "shards" else 1)  # of two shards, each with a sample or none


def test_index_blocks_and_minibatches():
    """Each sample in one block of its client; a client without samples has no block, and a minibatch that is masked."""
    owner = np.random.default_rng(6).zipf(1.5, SAMPLES).astype(np.int64) % CLIENTS  # one client holds a third of all

    def program(owner, labels, key):
        index = index_clients(owner, labels, CLIENTS, CLASSES)
        drawn = jax.vmap(lambda i: draw_minibatch(jax.random.fold_in(key, i), index, i, 4))(jnp.arange(CLIENTS))
        return index, cut_blocks(index, 8), drawn

    args = (owner.astype(np.int32), LABELS, jax.random.key(0))
    assert largest(program, *args)[0] <= LINEAR
    index, blocks, drawn = jax.device_get(jax.jit(program)(*args))
    sizes = np.bincount(owner, minlength=CLIENTS)
    assert sizes.max() > SAMPLES / 4
    np.testing.assert_array_equal(index.num_samples, sizes)
    np.testing.assert_array_equal(np.sort(blocks.sample[blocks.mask]), np.arange(SAMPLES))
    assert (owner[blocks.sample] == blocks.client[:, None])[blocks.mask].all()
    assert len(blocks.client) == SAMPLES // 8 + CLIENTS
    assert (owner[drawn] == np.arange(CLIENTS)[:, None])[sizes > 0].all()


def test_clients_of_natural_owners():
    """The client that holds most of an owner, the first of several, without a table of all clients and owners."""
    rng = np.random.default_rng(7)
    owner, of = rng.integers(-1, CLIENTS, SAMPLES), rng.integers(0, OWNERS - 1, SAMPLES)  # the last owner has no sample
    owner[of == 3] = -1  # and nobody holds those of this one
    owner[of == 5] = np.arange((of == 5).sum())[::-1] % 2
    program = lambda owner, of: client_of_owner(index_clients(owner, LABELS, CLIENTS, CLASSES), of, OWNERS, CLIENTS)  # noqa: E731
    assert largest(program, owner, of)[0] <= LINEAR
    found = np.asarray(jax.jit(program)(owner, of))
    for natural in (*range(40), OWNERS - 1):
        held = owner[(of == natural) & (owner >= 0)]
        assert found[natural] == (np.bincount(held).argmax() if len(held) else -1)
