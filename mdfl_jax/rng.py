"""Random streams by name and round, so that the draws of one part never depend on those of another part.

A seed is one typed key. Every use of randomness has a name, and every round has an index. The key for a name and a
round is folded from the seed. Therefore strategies that are compared under one seed have the same data, positions and
initial model, and a resumed run draws the same numbers as an uninterrupted run.
"""

import zlib
from typing import Literal, get_args

import jax

Stream = Literal[
    "partition", "placement", "init", "mobility", "batch", "link", "algorithm", "augmentation", "dropout", "cost"
]
STREAMS: tuple[str, ...] = get_args(Stream)


def stream(key: jax.Array, name: Stream) -> jax.Array:
    """Returns the key of a named stream of a seed.

    Args:
      key: typed key of the seed.
      name: one of `STREAMS`.
    """
    return jax.random.fold_in(key, zlib.crc32(name.encode()) & 0x7FFFFFFF)


def stream_at(key: jax.Array, name: Stream, round_index: jax.Array | int) -> jax.Array:
    """Returns the key of a named stream of a seed in one round.

    Args:
      key: typed key of the seed.
      name: one of `STREAMS`.
      round_index: [] int32.
    """
    return jax.random.fold_in(stream(key, name), round_index)


def own_draws(key: jax.Array) -> jax.Array:
    """Derives the key for an algorithm's own draws from its key of the round, which draws the minibatches.

    Because the two keys differ, algorithms with different draws of their own still use the same minibatches.
    """
    return stream(key, "algorithm")


def per_client(key: jax.Array, num_clients: int) -> jax.Array:
    """Returns one key for each client, [N]. The key of client i does not depend on N.

    >>> bool((per_client(jax.random.key(0), 3) == per_client(jax.random.key(0), 5)[:3]).all())
    True
    """
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(jax.numpy.arange(num_clients))
