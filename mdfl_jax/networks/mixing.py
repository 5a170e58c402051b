"""Mixing: the weights with which a client averages what it hears.

``mix[i, j]`` is the weight that receiver i gives to sender j. Rows sum to one; a client without a neighbour keeps its
own model. Every rule takes what it needs of (adjacency, num_samples) and is listed in `MIXINGS`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from mdfl_jax.registry import Registry

MixingRule = Callable[[jax.Array, jax.Array], jax.Array]
MIXINGS: Registry[MixingRule] = Registry("mixing")


def metropolis_hastings(adjacency: jax.Array) -> jax.Array:
    """Metropolis-Hastings weights (MADFL eq. 2): 1 / (1 + max(d_i, d_j)) for neighbours, the rest on the diagonal.

    Args:
      adjacency: [N, N] bool, symmetric, no self loops.

    Returns:
      mix: [N, N] float32, symmetric and doubly stochastic.

    >>> metropolis_hastings(jnp.array([[False, True], [True, False]])).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    degree = jnp.sum(adjacency, axis=1)
    weight = jnp.where(adjacency, 1.0 / (1.0 + jnp.maximum(degree[:, None], degree[None, :])), 0.0)
    return weight + jnp.diag(1.0 - jnp.sum(weight, axis=1))


def fedavg(adjacency: jax.Array, num_samples: jax.Array) -> jax.Array:
    """FedAvg weights (DADFL eq. 2): a sender's share of the samples in the closed neighbourhood of the receiver.

    Args:
      adjacency: [N, N] bool, no self loops.
      num_samples: [N] samples that each client holds, |D_j|.

    Returns:
      mix: [N, N] float32, row-stochastic. A closed neighbourhood that holds no sample keeps its own model.

    >>> fedavg(jnp.array([[False, True], [True, False]]), jnp.array([1, 3])).tolist()
    [[0.25, 0.75], [0.25, 0.75]]
    """
    own = jnp.eye(adjacency.shape[0], dtype=bool)
    held = jnp.where(adjacency | own, num_samples.astype(jnp.float32)[None, :], 0.0)
    total = jnp.sum(held, axis=1, keepdims=True)
    return jnp.where(total > 0, held / jnp.where(total > 0, total, 1.0), own.astype(jnp.float32))


@MIXINGS.register("metropolis_hastings")
def _metropolis_hastings(adjacency: jax.Array, num_samples: jax.Array) -> jax.Array:
    del num_samples
    return metropolis_hastings(adjacency)


MIXINGS.register("fedavg")(fedavg)
