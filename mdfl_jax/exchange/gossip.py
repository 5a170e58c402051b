"""Gossip: every client takes the weighted mean of the models that it hears, its own included."""

import jax
import jax.numpy as jnp

from mdfl_jax.types import ClientParams


def mix_dense(mix: jax.Array, client_params: ClientParams) -> ClientParams:
    """X <- W X, leaf by leaf (MADFL II-B, consensus update).

    Args:
      mix: [N, N], row i holds the weights of receiver i.
      client_params: [N, ...] stacked trees.

    Returns:
      The mixed trees. Sums are of float32 whatever the backend's default precision: averaging is where small
      differences between clients live.
    """

    def leaf(x: jax.Array) -> jax.Array:
        return jnp.einsum("ij,j...->i...", mix, x, precision="highest", preferred_element_type=jnp.float32)

    return jax.tree.map(lambda x: leaf(x).astype(x.dtype), client_params)
