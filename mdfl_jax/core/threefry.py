"""How a CPU computes the random numbers of JAX: the same bits, from programs that compile sooner.

JAX's generator is Threefry-2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). For CPUs, JAX
writes each use as a loop over arrays of the shape that is drawn. Every such loop becomes about six compiled functions,
and the compiler unrolls them for shapes such as [3, 3, 1, 8], those of the kernels of convolutions. For small models
this was a third of all compile time (benchmarks/README.md).

Here each use is one compiled function over a flat array. Other devices keep JAX's own form.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry2x32_p
from jax.interpreters import mlir

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)


def _turned(x: jax.Array, bits: int) -> jax.Array:
    """Rotate the bits of 32-bit words to the left."""
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def rounds(key: Sequence[jax.Array], words: Sequence[jax.Array]) -> list[jax.Array]:
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
    """Compute the same as JAX's primitive ``threefry2x32``, in one compiled function.

    Args:
      key1, key2: the words of the key, uint32.
      word1, word2: the words of the counter, uint32. All four have shapes that can be broadcast together.

    Returns:
      The two random words, of the common shape.
    """
    given = (key1, key2, word1, word2)
    shape = jnp.broadcast_shapes(*(x.shape for x in given))
    flat = [x if i < 2 and x.ndim == 0 else jnp.broadcast_to(x, shape).reshape(-1) for i, x in enumerate(given)]
    # The barriers keep the compiler from merging the hash with other code, which would copy it to each of its uses. For
    # the same reason both words leave it as one array.
    *key, word1, word2 = jax.lax.optimization_barrier(tuple(flat))
    both = jax.lax.optimization_barrier(jnp.concatenate(rounds(key, (word1, word2))))
    size = word1.shape[0]
    return [both[:size].reshape(shape), both[size:].reshape(shape)]


def install() -> None:
    """Make `hashed` the form in which JAX compiles Threefry for CPUs, in the whole process."""
    mlir.register_lowering(threefry2x32_p, mlir.lower_fun(hashed, multiple_results=True), platform="cpu", inline=False)
