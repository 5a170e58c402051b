"""Normal numbers whose tail is that of the normal distribution, as the account takes it to be.

`jax.random.normal` has 2^23 values in single precision, and ends at 5.2 and -5.4 standard deviations. A sample that
moves a sum by one deviation brings it beyond this end with a probability of 10^-5 in a step, which deltas do not cover.
"""

import jax
import jax.numpy as jnp

WORD = 2.0**-32


def of_words(words: jax.Array) -> jax.Array:
    """Return standard normal numbers, float32, of three random words each (Box and Muller 1958).

    Two words make the radius, which is at most 9.5. A sample that moves a sum by a deviation brings it beyond this with
    a probability of 10^-17.

    Args:
      words: [3, ...] uint32.
    """
    high, low, turn = (word.astype(jnp.float32) for word in words)
    share = WORD * (high + WORD * (low + 0.5))  # in (0, 1], fine near 0, where the radius is large
    return jnp.sqrt(-2 * jnp.log(share)) * jnp.cos(2 * jnp.pi * WORD * turn)


def normal(key: jax.Array, shape: tuple[int, ...], dtype: jnp.dtype = jnp.float32) -> jax.Array:
    """Draw standard normal numbers; the arguments are those of `jax.random.normal`."""
    return of_words(jax.random.bits(key, (3, *shape), jnp.uint32)).astype(dtype)
