"""Functions of models and links whose values are metrics. Functions of neighbour lists need no N x N matrix."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import ALL_PAIRS, Senders, as_matrix
from mdfl_jax.core.metric import CLIENT_BYTES, CLIENTS, NOTHING, ROUNDS, record
from mdfl_jax.core.trees import rows_like, trained
from mdfl_jax.core.types import ClientParams, Links

KRYLOV_STEPS = 64  # of the Krylov space; each has a block of two vectors
LAMBDA_2_LIMIT = 256  # the largest N; an eigenvalue problem of this size takes some milliseconds on a CPU


def components(adjacency: jax.Array, senders: Senders) -> jax.Array:
    """Find the connected components by label propagation; a link in one direction connects.

    Every client takes the smallest label in its neighbourhood, and then the label of the client with that number. The
    second step makes labels travel far in few iterations.

    Args:
      adjacency: [N, K] bool.
      senders: the clients for which the places stand.

    Returns:
      [N] int32, the smallest index of the clients of each client's component.
    """
    either = adjacency | senders.opposite(adjacency)

    def spread(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        label, _ = state
        heard = jnp.min(jnp.where(either, senders.of(label), label.shape[0]), axis=1)
        smallest = jnp.minimum(label, heard)
        smallest = jnp.minimum(smallest, smallest[smallest])
        return smallest, jnp.any(smallest != label)

    own = jnp.arange(adjacency.shape[0], dtype=jnp.int32)
    return jax.lax.while_loop(lambda state: state[1], spread, (own, jnp.bool_(True)))[0]


def _orthonormal(block: jax.Array, basis: jax.Array, fresh: jax.Array) -> jax.Array:
    """Make two vectors [N, 2] orthonormal to each other and to the columns of a basis, of which some may be zero.

    A vector in the span of the basis leaves only rounding error, which has the direction of the vector itself. So such
    a vector is replaced by a column of ``fresh``, [N, 2] random vectors.
    """

    def beyond(x: jax.Array) -> jax.Array:
        return x - jnp.matmul(basis, jnp.matmul(basis.T, x, precision="highest"), precision="highest")

    def unit(x: jax.Array) -> jax.Array:
        return x / jnp.maximum(jnp.linalg.norm(x, axis=0), jnp.finfo(x.dtype).tiny)

    block = unit(block)
    left = beyond(block)
    lost = jnp.linalg.norm(left, axis=0) < 1e-3
    block = unit(jnp.where(lost, fresh, left))
    for _ in range(2):
        block = unit(beyond(block))
        second = block[:, 1] - block[:, 0] * jnp.dot(block[:, 0], block[:, 1], precision="highest")
        block = unit(jnp.stack([block[:, 0], second], axis=1))
    return block


def lambda_2_of_lists(mix: jax.Array, senders: Senders, steps: int = KRYLOV_STEPS) -> jax.Array:
    """Compute the second largest eigenvalue of W^T W over neighbour lists, by a block Lanczos method.

    The value is the second largest Ritz value in a Krylov space of two random vectors, with an orthonormal basis; it is
    at most the eigenvalue. A graph that is not connected has an eigenvalue of at least 1 for each part. So its result
    is at least 1 (exactly 1 for symmetric weights), whatever the Krylov space has found.

    Args:
      mix: [N, K] the mixing matrix W over the places.
      senders: the clients for which the places stand.
      steps: the products with W^T W.

    Returns:
      [] float32.
    """
    assert senders.ids is not None
    num_clients, opposite = mix.shape[0], senders.opposite(mix)
    steps = min(steps, num_clients // 2)
    times = lambda weights, x: jnp.sum(weights[..., None] * x[senders.ids], axis=1)  # noqa: E731

    def product(x: jax.Array) -> jax.Array:
        return times(opposite, times(mix, x))

    def step(k: jax.Array, state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        basis, products, block = state
        fresh = jax.random.normal(jax.random.fold_in(key, k), block.shape, block.dtype)
        block = _orthonormal(block, basis, fresh)
        after = product(block)
        place = lambda whole, x: jax.lax.dynamic_update_slice_in_dim(whole, x, 2 * k, axis=1)  # noqa: E731
        return place(basis, block), place(products, after), after

    key, none = jax.random.key(0), jnp.zeros((num_clients, 2 * steps), mix.dtype)
    start = jax.random.normal(key, (num_clients, 2), mix.dtype)
    basis, products, _ = jax.lax.fori_loop(0, steps, step, (none, none, start))
    projected = jnp.matmul(basis.T, products, precision="highest")
    found = jnp.linalg.eigvalsh((projected + projected.T) / 2)[-2]
    label = components(mix != 0, senders)
    apart = jnp.any(label != label[0])
    return jnp.where(apart, jnp.maximum(found, 1), found).astype(jnp.float32)


def mean_model(client_params: ClientParams, among: jax.Array | None = None) -> ClientParams:
    """Compute the mean of the clients' models: [N, ...] -> [1, ...]; of some clients if ``among`` [N] bool is given."""
    if among is None:
        return jax.tree.map(lambda p: jnp.mean(p, axis=0, keepdims=True), client_params)
    of_some = lambda p: jnp.mean(p, axis=0, keepdims=True, where=rows_like(among, p))  # noqa: E731
    return jax.tree.map(of_some, client_params)


def consensus_distance(client_params: ClientParams, among: jax.Array | None = None) -> jax.Array:
    """Compute sqrt((1/N) sum_i ||x_i - mean||^2) of stacked models [N, ...], without batch statistics: [] float.

    It is that of some of the clients if ``among`` [N] bool is given.
    """
    client_params = trained(client_params)
    mean = mean_model(client_params, among)
    if among is not None:
        client_params = jax.tree.map(lambda p, m: jnp.where(rows_like(among, p), p, m), client_params, mean)
    squares = jax.tree.map(lambda p, m: jnp.sum(jnp.square(p - m)), client_params, mean)
    num_clients = jax.tree.leaves(client_params)[0].shape[0] if among is None else jnp.sum(among)
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
    """Count the senders that each client can hear: [N] int32. If links are pairs, the adjacency is not read."""
    if links.partner is None:
        return jnp.sum(links.audible, axis=1, dtype=jnp.int32)
    return (links.partner != jnp.arange(links.partner.shape[0])).astype(jnp.int32)


def pack_links(links: Links) -> jax.Array:
    """Return whom each client can hear as bits, [N, ceil(N / 8)] uint8."""
    return jnp.packbits(as_matrix(links.audible, links.senders), axis=1)


PACKED = {"shape": (ROUNDS, CLIENTS, CLIENT_BYTES), "dtype": "uint8"}
HEARD = record("heard", lambda view: pack_links(view.heard), NOTHING, **PACKED)
"""The record of who heard whom, of algorithms and networks under which a client may hear less than all its links."""


def lambda_2(mix: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Compute the second largest eigenvalue of W^T W (MADFL III-A).

    Args:
      mix: the mixing matrix W, [N, K].
      senders: the clients for which the K places stand.

    Returns:
      [] float; 1 on a disconnected graph, 0 for N = 1. A matrix with N = 0 or N above `LAMBDA_2_LIMIT` gives NaN;
      neighbour lists give a value for every N, above this limit by `mdfl_jax.metrics.values`.

    >>> float(lambda_2(jnp.eye(3)))
    1.0
    """
    num_clients = mix.shape[0]
    if senders.ids is not None:
        if num_clients > LAMBDA_2_LIMIT:
            return lambda_2_of_lists(mix, senders)
        mix = as_matrix(mix, senders)
    if not 0 < num_clients <= LAMBDA_2_LIMIT:
        return jnp.float32(jnp.nan)
    if num_clients == 1:
        return jnp.float32(0.0)
    return jnp.linalg.eigvalsh(jnp.matmul(mix.T, mix, precision="highest"))[-2]
