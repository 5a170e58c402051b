"""The meter: messages on directed links, and the bits of each."""

import jax
import jax.numpy as jnp

FLOAT_BITS = 32


def messages_sent(adjacency: jax.Array) -> jax.Array:
    """[N] int32 messages that each client sends when everybody sends to everyone that hears it: column sums.

    A message counts once a directed link, also where a radio could serve several receivers with one transmission.
    """
    return jnp.sum(adjacency, axis=0, dtype=jnp.int32)


def dense_message_bits(num_params: int) -> int:
    """Bits of a whole model in float32."""
    return FLOAT_BITS * num_params
