"""Samples by the clients' shares of all samples, whatever their labels."""

import jax
import jax.numpy as jnp

from mdfl_jax.data.partition import cuts_of_shares


def deal_by_sizes(key: jax.Array, num_samples: int, sizes: jax.Array) -> jax.Array:
    """Shuffle all samples, and give each client as many as ``sizes`` says, whatever their labels.

    Args:
      key: typed key.
      num_samples: n.
      sizes: [N] int whose sum is n.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    place = jax.random.permutation(key, num_samples)
    return jnp.searchsorted(jnp.cumsum(sizes), place, side="right").astype(jnp.int32)


def sizes_of_shares(shares: jax.Array, num_samples: int) -> jax.Array:
    """Turn the clients' shares of all samples into numbers of samples.

    Every client gets one sample first, if there are enough for all. The rest is divided by the shares.

    Args:
      shares: [N] float, which sum to one, up to rounding.
      num_samples: n.

    Returns:
      sizes: [N] int32 whose sum is n; at least 1 each if n >= N.
    """
    num_clients = shares.shape[0]
    least = int(num_samples >= num_clients)
    (cuts,) = cuts_of_shares(shares[None], jnp.array([num_samples - least * num_clients], jnp.int32))
    return least + jnp.diff(cuts, prepend=0)
