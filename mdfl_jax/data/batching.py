"""Ragged client data as fixed shapes: an index of everybody's samples, and its blocks.

Clients hold unequal numbers of samples. Padding each to the largest would cost several times the work at Dirichlet
0.05. Instead every client's samples are cut into blocks of B, a block belongs to one client, and only a client's last
block is padded, so n samples of N clients make at most n // B + N blocks, whatever the seed: seeds stack.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class ClientIndex(NamedTuple):
    """Which samples each client holds; a pytree of fixed shapes for every partition.

    Attributes:
      sample: [n] int32 sample indices, grouped by client in the order of clients; samples of nobody at the end.
      first: [N] int32 where each client's group starts in ``sample``.
      num_samples: [N] int32 how many it holds.
      label_counts: [N, C] int32 how many of each label.
    """

    sample: jax.Array
    first: jax.Array
    num_samples: jax.Array
    label_counts: jax.Array


class Blocks(NamedTuple):
    """Blocks of B samples of one client each; the real ones first.

    Attributes:
      client: [K] int32 owner of each block (padding blocks: client 0, all masked).
      sample: [K, B] int32 sample indices (padding: some valid index).
      mask: [K, B] bool, true where there is a sample.
      view: [K, B] int32 how each is shown (`mdfl_jax.data.augment`); None: as it is.
      draws: [K] uint32 seeds of what the model draws in training; None: it draws nothing.
    """

    client: jax.Array
    sample: jax.Array
    mask: jax.Array
    view: jax.Array | None = None
    draws: jax.Array | None = None


def index_clients(owner: jax.Array, labels: jax.Array, num_clients: int, num_classes: int) -> ClientIndex:
    """Groups samples by client.

    Args:
      owner: [n] int in -1..N-1, as a partition gives it; -1 belongs to nobody.
      labels: [n] int in 0..C-1.
    """
    group = jnp.where(owner < 0, num_clients, owner)
    counts = jnp.zeros((num_clients + 1, num_classes), jnp.int32).at[group, labels].add(1)[:num_clients]
    num_samples = jnp.sum(counts, axis=1)
    order = jnp.argsort(group, stable=True).astype(jnp.int32)
    return ClientIndex(order, jnp.cumsum(num_samples) - num_samples, num_samples, counts)


def cut_blocks(index: ClientIndex, block_size: int) -> Blocks:
    """Cuts every client's samples into blocks of ``block_size``; K = n // block_size + N blocks in all.

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
    """Sample indices of one client's minibatch, drawn uniformly with replacement from what it holds: [size] int32.

    With replacement, as stochastic gradients are modelled in the papers' analyses; a client without samples gets some
    valid indices that its caller masks.
    """
    drawn = jax.random.randint(key, (size,), 0, jnp.maximum(index.num_samples[client], 1))
    return index.sample[jnp.minimum(index.first[client] + drawn, index.sample.shape[0] - 1)]


def default_block_size(num_samples: int, num_clients: int) -> int:
    """A power of two near a quarter of a client's mean share, 8 to 128: little padding, and long enough products."""
    quarter = max(num_samples // (4 * num_clients), 1)
    return min(max(1 << (quarter.bit_length() - 1), 8), 128)
