"""Random streams by name and round, so that the draws of one part never depend on those of another part.

A seed is one typed key. Every use of randomness has a name, and every round has an index. The key for a name and a
round is folded from the seed. So two sweep points under one seed have the same data, places and first model, and what
they have in common cancels in their difference. A resumed run draws the same numbers as an uninterrupted run, since no
state of a generator passes from round to round.

The key of a run may also be an array with a key for each stream, in the order of `STREAMS`, for studies in which only
some streams follow the seed (`mdfl_jax.config.checks`).

On CPUs, the programs of studies use another form of JAX's Threefry (`small_threefry`), which compiles sooner. The bits
are the same.
"""

import contextlib
import threading
import zlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir
from jax.extend.random import threefry2x32_p

ROTATIONS, PARITY = ((13, 15, 26, 6), (17, 29, 16, 24)), np.uint32(0x1BD11BDA)  # of Threefry-2x32
Stream = Literal[
    "partition",
    "placement",
    "init",
    "mobility",
    "batch",
    "link",
    "algorithm",
    "augmentation",
    "dropout",
    "cost",
    "evaluation",
    "epochs",
]
STREAMS: tuple[str, ...] = get_args(Stream)
OF_BATCHES = ("algorithm", "augmentation", "dropout", "epochs")
"""The streams that are folded from the key of a round's minibatches; they follow the stream "batch"."""
SEED_STREAMS = tuple(name for name in STREAMS if name not in OF_BATCHES)
"""The streams that are folded from the seed itself."""


def source_of(name: str) -> str:
    """Return the stream of `SEED_STREAMS` from which a stream is folded."""
    return "batch" if name in OF_BATCHES else name


def keys(seeds: np.ndarray) -> jax.Array:
    """Return the typed keys of seeds, uint32 of any shape."""
    make = jax.random.key
    for _ in range(seeds.ndim):
        make = jax.vmap(make)
    return make(seeds)


def number_of(name: str) -> int:
    """Return the whole number below 2^31 that is folded into a key for the draws of this name."""
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


def stream(key: jax.Array, name: Stream) -> jax.Array:
    """Return the key of a named stream of a seed.

    Args:
      key: typed key of the seed, or [len(STREAMS)] typed keys, one for each stream.
      name: one of `STREAMS`.
    """
    own = key[STREAMS.index(name)] if key.ndim else key
    return jax.random.fold_in(own, number_of(name))


def stream_at(key: jax.Array, name: Stream, round_index: jax.Array | int) -> jax.Array:
    """Return the key of a named stream of a seed in one round.

    Args:
      key: typed key of the seed, or those of its streams, as for `stream`.
      name: one of `STREAMS`.
      round_index: [] int32.
    """
    return jax.random.fold_in(stream(key, name), round_index)


def own_draws(key: jax.Array) -> jax.Array:
    """Derive the key for an algorithm's own draws from its key of the round, which draws the minibatches.

    The two keys differ, so algorithms with different draws of their own still use the same minibatches.
    """
    return stream(key, "algorithm")


def per_client(key: jax.Array, num_clients: int) -> jax.Array:
    """Return one key for each client, [N]. The key of client i does not depend on N.

    >>> bool((per_client(jax.random.key(0), 3) == per_client(jax.random.key(0), 5)[:3]).all())
    True
    """
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(jax.numpy.arange(num_clients))


def product_words(a: jax.Array, b: jax.Array | np.uint32) -> tuple[jax.Array, jax.Array]:
    """Return the product of two uint32 numbers as two words, (high, low), uint32 each.

    >>> product_words(jnp.uint32(2**31 + 1), jnp.uint32(6))
    (Array(3, dtype=uint32), Array(6, dtype=uint32))
    """
    half = np.uint32(0xFFFF)
    low_low, low_high = (a & half) * (b & half), (a & half) * (b >> 16)
    high_low, high_high = (a >> 16) * (b & half), (a >> 16) * (b >> 16)
    middle = (low_low >> 16) + (low_high & half) + (high_low & half)
    return high_high + (low_high >> 16) + (high_low >> 16) + (middle >> 16), a * b


def pair_words(key: jax.Array, row: jax.Array, column: jax.Array, num_columns: int) -> tuple[jax.Array, jax.Array]:
    """Return the two random words of `jax.random` at [row, column] of an array with ``num_columns`` columns.

    With threefry, the key and the index of an element decide its value. So neighbour lists draw a few elements of an
    [N, N] array without the others, and get the numbers that the dense form draws.

    Args:
      key: typed key of the implementation threefry2x32.
      row, column: whole numbers that broadcast to one shape.
      num_columns: the number of columns, N.

    Returns:
      (high, low), uint32 of the broadcast shape.

    Raises:
      ValueError: for a key of another implementation.
    """
    config: Any = jax.config  # jax declares no types of its flags
    if str(jax.random.key_impl(key)) != "threefry2x32" or not config.jax_threefry_partitionable:
        raise ValueError("draws for neighbour lists need jax's partitionable threefry keys")
    row, column = (jnp.asarray(x).astype(jnp.uint32) for x in jnp.broadcast_arrays(row, column))
    high, low = product_words(row, np.uint32(num_columns))
    total = low + column
    high += (total < column).astype(jnp.uint32)
    first, second = jax.random.key_data(key)[..., 0], jax.random.key_data(key)[..., 1]
    spread = lambda word: jnp.broadcast_to(word, total.shape)  # noqa: E731
    return tuple(threefry2x32_p.bind(spread(first), spread(second), high, total))


def pair_uniform(key: jax.Array, row: jax.Array, column: jax.Array, num_columns: int) -> jax.Array:
    """Return the elements [row, column] of `jax.random.uniform(key, (num_rows, num_columns))`, as `pair_words`."""
    high, low = pair_words(key, row, column, num_columns)
    if jnp.result_type(float) == jnp.float64:
        word = (high.astype(jnp.uint64) << 32 | low.astype(jnp.uint64)) >> 12 | np.float64(1).view(np.uint64)
        return jax.lax.bitcast_convert_type(word, jnp.float64) - 1
    word = (high ^ low) >> 9 | np.float32(1).view(np.uint32)
    return jax.lax.bitcast_convert_type(word, jnp.float32) - 1


def _turned(x: jax.Array, bits: int) -> jax.Array:
    """Rotate the bits of 32-bit words to the left."""
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def threefry_rounds(key: Sequence[jax.Array], words: Sequence[jax.Array]) -> list[jax.Array]:
    """Compute the 20 rounds of Threefry-2x32.

    Args:
      key: the two words of the key, uint32 arrays of one shape or scalars.
      words: the two words of the counter, uint32 arrays of one shape.

    Returns:
      The two random words, of the shape of ``words``.
    """
    a, b = words
    keys = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    a, b = a + keys[0], b + keys[1]
    for group in range(5):
        for bits in ROTATIONS[group % 2]:
            a = a + b
            b = a ^ _turned(b, bits)
        a, b = a + keys[(group + 1) % 3], b + keys[(group + 2) % 3] + np.uint32(group + 1)
    return [a, b]


def hashed(key1: jax.Array, key2: jax.Array, word1: jax.Array, word2: jax.Array) -> list[jax.Array]:
    """Compute the same as JAX's primitive ``threefry2x32``, in one compiled function over a flat array.

    JAX's generator is Threefry-2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). For CPUs,
    JAX writes each use as a loop over arrays of the drawn shape. Each loop becomes about six compiled functions, which
    the compiler unrolls for shapes such as [3, 3, 1, 8], a kernel of a convolution. For small models this took a third
    of all compile time; benchmarks/tried.md compares the forms. Other devices keep JAX's own form.

    Args:
      key1, key2: the words of the key, uint32.
      word1, word2: the words of the counter, uint32. All four have shapes that can be broadcast together.

    Returns:
      The two random words, of the common shape.
    """
    given = (key1, key2, word1, word2)
    shape = jnp.broadcast_shapes(*(x.shape for x in given))
    flat = [x if i < 2 and x.ndim == 0 else jnp.broadcast_to(x, shape).reshape(-1) for i, x in enumerate(given)]
    # The barriers keep the compiler from merging the hash with other code, which would copy the hash to each of its
    # uses. For the same reason both words leave the function as one array.
    *key, word1, word2 = jax.lax.optimization_barrier(tuple(flat))
    both = jax.lax.optimization_barrier(jnp.concatenate(threefry_rounds(key, (word1, word2))))
    size = word1.shape[0]
    return [both[:size].reshape(shape), both[size:].reshape(shape)]


_FORMS = mlir._platform_specific_lowerings["cpu"]  # JAX has no public name for the form that is registered
_FORM = SimpleNamespace(lock=threading.Lock(), blocks=0, of_jax=None)  # the blocks of all threads that are open


@contextlib.contextmanager
def small_threefry() -> Iterator[None]:
    """Lower Threefry for CPUs as `hashed` in this block, so that the programs of studies compile sooner.

    The bits are the same. After the last open block of all threads, JAX has its own form again.
    """
    with _FORM.lock:
        _FORM.blocks += 1
        if _FORM.blocks == 1:
            _FORM.of_jax = _FORMS[threefry2x32_p]
            form = mlir.lower_fun(hashed, multiple_results=True)
            mlir.register_lowering(threefry2x32_p, form, platform="cpu", inline=False)
    try:
        yield
    finally:
        with _FORM.lock:
            _FORM.blocks -= 1
            if not _FORM.blocks:
                _FORMS[threefry2x32_p] = _FORM.of_jax
