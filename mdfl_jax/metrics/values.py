"""Functions of models and links whose values are metrics."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.batch_statistics import trained
from mdfl_jax.core.links import ALL_PAIRS, Senders, as_matrix
from mdfl_jax.core.types import ClientParams, Links
from mdfl_jax.metrics import spectrum

LAMBDA_2_LIMIT = 256  # the largest N; an eigenvalue problem of this size takes some milliseconds on a CPU


def mean_model(client_params: ClientParams) -> ClientParams:
    """Compute the mean of the clients' models: [N, ...] -> [1, ...]."""
    return jax.tree.map(lambda p: jnp.mean(p, axis=0, keepdims=True), client_params)


def consensus_distance(client_params: ClientParams) -> jax.Array:
    """Compute sqrt((1/N) sum_i ||x_i - mean||^2) of stacked models [N, ...], without batch statistics: [] float."""
    client_params = trained(client_params)
    mean = mean_model(client_params)
    squares = jax.tree.map(lambda p, m: jnp.sum(jnp.square(p - m)), client_params, mean)
    num_clients = jax.tree.leaves(client_params)[0].shape[0]
    return jnp.sqrt(sum(jax.tree.leaves(squares)) / num_clients)


def differences(client_params: ClientParams) -> jax.Array:
    """Compute ||x_i - x_j|| of every two of N stacked models, without batch statistics: [N, N] float32.

    Models are compared after their mean is subtracted, so that models that are nearly alike keep their digits.
    """
    own = [
        jnp.reshape(leaf, (leaf.shape[0], -1)).astype(jnp.float32) for leaf in jax.tree.leaves(trained(client_params))
    ]
    own = [leaf - jnp.mean(leaf, axis=0) for leaf in own]
    products = sum(jnp.matmul(leaf, leaf.T, precision="highest") for leaf in own)
    squares = jnp.diagonal(products)
    return jnp.sqrt(jnp.maximum(squares[:, None] + squares - 2 * products, 0.0))


def num_neighbours(links: Links) -> jax.Array:
    """Count the senders that each client hears: [N] int32. If links are pairs, the adjacency is not read."""
    if links.partner is None:
        return jnp.sum(links.adjacency, axis=1, dtype=jnp.int32)
    return (links.partner != jnp.arange(links.partner.shape[0])).astype(jnp.int32)


def lambda_2(mix: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Compute the second largest eigenvalue of W^T W (MADFL III-A).

    Args:
      mix: the mixing matrix W, [N, K].
      senders: the clients for which the K places stand.

    Returns:
      [] float; 1 on a disconnected graph, 0 for N = 1. A matrix with N = 0 or N above `LAMBDA_2_LIMIT` gives NaN;
      neighbour lists give a value for every N, above this limit by `mdfl_jax.metrics.spectrum`.

    >>> float(lambda_2(jnp.eye(3)))
    1.0
    """
    num_clients = mix.shape[0]
    if senders.ids is not None:
        if num_clients > LAMBDA_2_LIMIT:
            return spectrum.lambda_2(mix, senders)
        mix = as_matrix(mix, senders)
    if not 0 < num_clients <= LAMBDA_2_LIMIT:
        return jnp.float32(jnp.nan)
    if num_clients == 1:
        return jnp.float32(0.0)
    return jnp.linalg.eigvalsh(jnp.matmul(mix.T, mix, precision="highest"))[-2]
