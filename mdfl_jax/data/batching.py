"""Client data of unequal sizes in arrays of fixed shapes: an index of all clients' samples, blocks, and minibatches.

Clients hold unequal numbers of samples. Padding every client to the largest one would cost several times the work with
a Dirichlet partition of alpha 0.05. Instead, every client's samples are cut into blocks of B. A block belongs to one
client, and only a client's last block is padded. So n samples of N clients make at most n // B + N blocks. This bound
is the same for all seeds, so the seeds can be stacked.

A minibatch is drawn with replacement (`draw_minibatch`), or its samples are those of an epoch (`Epochs`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.sharding import by_rows, everywhere


class ClientIndex(NamedTuple):
    """The samples that each client holds. It is a pytree whose shapes are the same for every partition.

    Attributes:
      sample: [n] int32, sample indices grouped by client, in the order of the clients. Samples without an owner come
        last.
      first: [N] int32, the position in ``sample`` where each client's group begins.
      num_samples: [N] int32, the number of samples that each client holds.
      label_counts: [N, C] int32, the number of samples of each label that each client holds.
    """

    sample: jax.Array
    first: jax.Array
    num_samples: jax.Array
    label_counts: jax.Array


class Blocks(NamedTuple):
    """K blocks of B samples. All samples of a block belong to one client. Padding blocks come last.

    Attributes:
      client: [K] int32, the owner of each block. A padding block has client 0 and no true entry in ``mask``.
      sample: [K, B] int32, sample indices. Padding has some valid index.
      mask: [K, B] bool, true for samples, false for padding.
      view: [K, B] int32, the random view of each image (`mdfl_jax.data.augment`); None if images are not changed.
      draws: [K] uint32, the seeds of the model's random draws in training; None if the model draws nothing.
      poisoned: [K] bool, the blocks whose owners learn from changed samples (`mdfl_jax.attacks`); None: nobody does.
    """

    client: jax.Array
    sample: jax.Array
    mask: jax.Array
    view: jax.Array | None = None
    draws: jax.Array | None = None
    poisoned: jax.Array | None = None


def index_clients(owner: jax.Array, labels: jax.Array, num_clients: int, num_classes: int) -> ClientIndex:
    """Group samples by client.

    Args:
      owner: [n] int in -1..N-1, the owner of each sample, as a partition returns it. -1 means no owner.
      labels: [n] int in 0..C-1.
      num_clients: N.
      num_classes: C.

    Returns:
      The index of the clients' samples.
    """
    group = jnp.where(owner < 0, num_clients, owner)
    counts = jnp.zeros((num_clients + 1, num_classes), jnp.int32).at[group, labels].add(1)[:num_clients]
    num_samples = jnp.sum(counts, axis=1)
    order = jnp.argsort(group, stable=True).astype(jnp.int32)
    return ClientIndex(order, jnp.cumsum(num_samples) - num_samples, num_samples, counts)


def cut_blocks(index: ClientIndex, block_size: int) -> Blocks:
    """Cut every client's samples into blocks of ``block_size``.

    Args:
      index: the index of the clients' samples.
      block_size: B.

    Returns:
      K = n // B + N blocks, padding blocks included.

    >>> index = index_clients(jnp.array([1, 0, 1, 1]), jnp.zeros(4, int), num_clients=2, num_classes=1)
    >>> blocks = cut_blocks(index, 2)
    >>> blocks.client.tolist(), blocks.mask.tolist()
    ([0, 1, 1, 0], [[True, False], [True, True], [True, False], [False, False]])
    """
    n, num_clients = index.sample.shape[0], index.first.shape[0]
    blocks_of = -(-index.num_samples // block_size)
    ends = jnp.cumsum(blocks_of)
    k = jnp.arange(n // block_size + num_clients)
    real = k < ends[-1]
    client = jnp.where(real, jnp.searchsorted(ends, k, side="right"), 0).astype(jnp.int32)
    within = (k - (ends - blocks_of)[client])[:, None] * block_size + jnp.arange(block_size)
    mask = real[:, None] & (within < index.num_samples[client][:, None])
    sample = index.sample[jnp.where(mask, index.first[client][:, None] + within, 0)]
    return Blocks(client, sample, mask)


def draw_minibatch(key: jax.Array, index: ClientIndex, client: jax.Array, size: int) -> jax.Array:
    """Draw the minibatch of one client uniformly with replacement from the samples that it holds.

    MADFL and FedMobile draw independent samples from a client's data. PaME's batches are subsets, so without
    replacement; the two differ where a batch is a large part of a client's data.

    Args:
      key: typed key of the client's step.
      index: the index of the clients' samples.
      client: [] int32.
      size: the number of samples to draw.

    Returns:
      [size] int32 sample indices. For a client without samples they are some valid indices, which the caller masks.
    """
    drawn = jax.random.randint(key, (size,), 0, jnp.maximum(index.num_samples[client], 1))
    return index.sample[jnp.minimum(index.first[client] + drawn, index.sample.shape[0] - 1)]


class Batch(NamedTuple):
    """A minibatch of every client, of at most B samples.

    Attributes:
      sample: [N, B] int32, the samples, as the task that made them counts them. Padding has some valid value.
      mask: [N, B] bool, true for samples, false for padding.
    """

    sample: jax.Array
    mask: jax.Array


class Epochs(NamedTuple):
    """The minibatches of E epochs: in each epoch every client takes each of its samples once, in an order of its own.

    A client of n samples takes ceil(n / B) steps in an epoch; the last one has what is left over. With ``equal`` all
    clients take as many steps as the largest one, and each divides its samples among them as evenly as whole numbers
    allow. A client that holds less samples than there are steps then has steps without samples.

    Attributes:
      order: [E, n] int32, the samples in the order of each epoch, grouped by client.
      first: [N] int32, the position in a row of ``order`` where each client's group begins.
      num_samples: [N] int32, the number of samples of each client.
      batch_size: B.
      equal: whether all clients take equally many steps.
    """

    order: jax.Array
    first: jax.Array
    num_samples: jax.Array
    batch_size: int
    equal: bool

    @property
    def most(self) -> jax.Array:
        """The steps of the client with the most samples in an epoch, [] int32."""
        return everywhere(lambda held: -(-jnp.max(held) // self.batch_size), self.num_samples)

    @property
    def steps(self) -> jax.Array:
        """The steps that each client takes in all epochs, [N] int32: none without samples."""
        of_epoch = jnp.where(self.num_samples > 0, self.most, 0) if self.equal else self._own
        return self.order.shape[0] * of_epoch

    @property
    def _own(self) -> jax.Array:
        return -(-self.num_samples // self.batch_size)

    def batch(self, step: jax.Array) -> Batch:
        """Return the minibatches of one step, [] int32 from 0. A client that takes no such step gets any one."""
        of_epoch = self.most if self.equal else self._own

        def of_clients(rows: tuple[jax.Array, ...], whole: tuple[jax.Array, jax.Array]) -> Batch:
            (first, held, steps), (order, step) = rows, whole
            steps = jnp.maximum(steps, 1)
            epoch, part = jnp.minimum(step // steps, order.shape[0] - 1), step % steps
            each, more = (held // steps, held % steps) if self.equal else (self.batch_size, held)
            begin = part * each + (jnp.minimum(part, more) if self.equal else 0)
            end = begin + each + (part < more) if self.equal else jnp.minimum(begin + each, held)
            place = begin[:, None] + jnp.arange(self.batch_size)
            at = jnp.minimum(first[:, None] + place, order.shape[1] - 1)
            return Batch(order[epoch[:, None], at], place < end[:, None])

        rows = self.first, self.num_samples, jnp.broadcast_to(of_epoch, self.first.shape)
        return by_rows(of_clients, rows, (self.order, step))


def draw_epochs(
    key: jax.Array,
    num_epochs: int,
    sample: jax.Array,
    first: jax.Array,
    num_samples: jax.Array,
    batch_size: int,
    equal: bool = False,
) -> Epochs:
    """Draw the orders in which clients take their samples, a new one for each client and epoch.

    Args:
      key: typed key of the round.
      num_epochs: E.
      sample: [n] int32, the samples, grouped by client; those of nobody come last.
      first: [N] int32, where each client's group begins.
      num_samples: [N] int32, the number of samples of each client.
      batch_size: B.
      equal: whether all clients take equally many steps.
    """

    def shuffled(sample: jax.Array, first: jax.Array, num_samples: jax.Array) -> jax.Array:
        n = sample.shape[0]
        group = jnp.searchsorted(first + num_samples, jnp.arange(n), side="right").astype(jnp.int32)
        draws = jax.random.bits(key, (num_epochs, n), jnp.uint32)
        rows = jnp.broadcast_to(group, draws.shape), draws, jnp.broadcast_to(sample, draws.shape)
        return jax.lax.sort(rows, dimension=1, num_keys=2)[2]

    return Epochs(everywhere(shuffled, sample, first, num_samples), first, num_samples, batch_size, equal)


def default_block_size(num_samples: int, num_clients: int) -> int:
    """Return the largest power of two up to a quarter of the mean number of samples of a client, but within 8 to 128.

    Such blocks need little padding and are large enough for efficient matrix products.
    """
    quarter = max(num_samples // (4 * num_clients), 1)
    return min(max(1 << (quarter.bit_length() - 1), 8), 128)
