"""Bools as bits, 32 in a word."""

import jax
import jax.numpy as jnp

WORD = 32


def packed(mask: jax.Array) -> jax.Array:
    """Pack [..., n] bool into bits: [..., ceil(n / 32)] uint32, the first entry in the first word's lowest bit."""
    count = mask.shape[-1]
    words = -(-count // WORD)
    full = jnp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, words * WORD - count)])
    bits = full.reshape(*mask.shape[:-1], words, WORD).astype(jnp.uint32)
    return jnp.sum(bits << jnp.arange(WORD, dtype=jnp.uint32), axis=-1, dtype=jnp.uint32)


def unpacked(words: jax.Array, count: int) -> jax.Array:
    """Return the first ``count`` bits of words [..., W] as [..., count] bool.

    >>> unpacked(packed(jnp.arange(40) % 3 == 0), 40)[..., :7].tolist()
    [True, False, False, True, False, False, True]
    """
    bits = (words[..., None] >> jnp.arange(WORD, dtype=jnp.uint32)) & 1
    return bits.reshape(*words.shape[:-1], -1)[..., :count] > 0


def num_bits(words: jax.Array) -> jax.Array:
    """Count the bits of words [..., W]: [...] int32."""
    return jnp.sum(jax.lax.population_count(words), axis=-1, dtype=jnp.int32)


def votes_of(words: jax.Array, voting: jax.Array, count: int) -> jax.Array:
    """Count for each bit of words [N, W] in how many of the rows [N] bool it is set: [count] int32."""
    of_bit = lambda bit: jnp.sum(((words >> bit) & 1) * voting[:, None], axis=0, dtype=jnp.int32)  # noqa: E731
    return jax.lax.map(of_bit, jnp.arange(WORD, dtype=jnp.uint32)).T.reshape(-1)[:count]
