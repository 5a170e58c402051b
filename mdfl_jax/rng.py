"""Random streams by name and round, so that what one part draws never depends on another.

A seed is one typed key. Every use of chance has a name, and every round an index; the key of (name, round) is folded
from the seed, so strategies compared under one seed meet the same data, places and initial model, and a resumed run
draws what the uninterrupted one would have drawn.
"""

import zlib
from typing import Literal, get_args

import jax

Stream = Literal["partition", "placement", "init", "mobility", "batch", "link", "algorithm", "augmentation", "dropout"]
STREAMS: tuple[str, ...] = get_args(Stream)


def stream(key: jax.Array, name: Stream) -> jax.Array:
    """The key of a named stream of a seed.

    Args:
      key: typed key of the seed.
      name: one of `STREAMS`.
    """
    return jax.random.fold_in(key, zlib.crc32(name.encode()) & 0x7FFFFFFF)


def stream_at(key: jax.Array, name: Stream, round_index: jax.Array | int) -> jax.Array:
    """The key of a named stream in one round."""
    return jax.random.fold_in(stream(key, name), round_index)


def own_draws(key: jax.Array) -> jax.Array:
    """An algorithm's key for what it draws itself, of its key of the round, which draws the minibatches.

    So algorithms that draw differently meet the same minibatches.
    """
    return stream(key, "algorithm")


def per_client(key: jax.Array, num_clients: int) -> jax.Array:
    """One key a client, [N]; client i's key does not depend on N.

    >>> bool((per_client(jax.random.key(0), 3) == per_client(jax.random.key(0), 5)[:3]).all())
    True
    """
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(jax.numpy.arange(num_clients))
