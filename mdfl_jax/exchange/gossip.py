"""Gossip: every client takes the weighted mean of the models that it receives and its own.

Two kernels compute the same result: a dense matrix product, and a sum over neighbour lists of bounded length. The sum
reads only the models that are received. `mix` uses the lists if they are faster and hold all senders of the round;
otherwise it uses the product. So no sender is ever left out.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.devices import backend
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.sharding import by_near_rows, by_rows
from mdfl_jax.core.trees import rows_like
from mdfl_jax.core.types import ClientParams

DENSE_UP_TO = 64  # clients; up to this number the product is as fast as the lists (benchmarks/tried.md)
_RECEIVERS = 8  # receivers computed at a time over neighbour lists on a CPU
_PLACES = 8  # neighbour slots that are added in one pass over the sums
DEFAULT_BOUND = 16  # senders of a receiver, the receiver itself included


class NeighbourList(NamedTuple):
    """The senders from which each receiver receives, at most K, the receiver itself included.

    Attributes:
      sender: [N, K] int32 the indices of the senders; unused slots hold the receiver's own index.
      weight: [N, K] float32 the senders' weights, zero at unused slots.
      most: [] int32 the largest number of senders of a receiver, which may be greater than K.
    """

    sender: jax.Array
    weight: jax.Array
    most: jax.Array


def neighbour_list(mix: jax.Array, bound: int) -> NeighbourList:
    """List the first ``bound`` senders with non-zero weight of each receiver.

    Args:
      mix: [N, N], row i holds the weights of receiver i.
      bound: K >= 1.

    >>> neighbour_list(jnp.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), 2).sender.tolist()
    [[0, 1], [0, 1], [2, 2]]
    """
    num_clients = mix.shape[0]
    heard = mix != 0
    rank = jnp.cumsum(heard, axis=1, dtype=jnp.int32)
    places = jnp.arange(1, bound + 1, dtype=jnp.int32)
    # The k-th sender is at the index where the running count first reaches k.
    found = jax.vmap(lambda row: jnp.searchsorted(row, places))(rank).astype(jnp.int32)
    present = found < num_clients
    receiver = jnp.arange(num_clients, dtype=jnp.int32)[:, None]
    sender = jnp.where(present, found, receiver)
    weight = jnp.where(present, jnp.take_along_axis(mix, sender, axis=1), 0.0)
    return NeighbourList(sender, weight, jnp.max(rank[:, -1]))


def mix_dense(mix: jax.Array, client_params: ClientParams) -> ClientParams:
    """Compute X <- W X leaf by leaf, as a matrix product (MADFL II-B, consensus update).

    Args:
      mix: [N, N], row i holds the weights of receiver i.
      client_params: [N, ...] stacked trees.

    Returns:
      The mixed trees, [N, ...]. Sums have at least float32 precision, whatever the backend's default, because averaging
      must not lose the small differences between clients.
    """

    def leaf(x: jax.Array) -> jax.Array:
        wide = jnp.promote_types(x.dtype, jnp.float32)
        return jnp.einsum("ij,j...->i...", mix, x, precision="highest", preferred_element_type=wide)

    return jax.tree.map(lambda x: leaf(x).astype(x.dtype), client_params)


def mix_listed(neighbours: NeighbourList, client_params: ClientParams) -> ClientParams:
    """Compute X <- W X over neighbour lists, with K gathers.

    The gathers are written out one by one, so that XLA fuses them into one pass without an [N, K, d] array.

    Args:
      neighbours: the lists. ``most`` must be at most K, else senders beyond the lists are missing; `mix` checks this.
      client_params: [N, ...] stacked trees.

    Returns:
      The mixed trees, [N, ...].
    """

    sender, weight, _ = neighbours

    def leaf(x: jax.Array) -> jax.Array:
        wide = lambda k: rows_like(weight[:, k], x)  # noqa: E731
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        heard = [wide(k) * x[sender[:, k]].astype(dtype) for k in range(sender.shape[1])]
        return sum(heard[1:], heard[0]).astype(x.dtype)

    return jax.tree.map(leaf, client_params)


def listed_sums(weights: jax.Array, ids: jax.Array, client_params: ClientParams) -> ClientParams:
    """Compute the weighted sums of the senders' rows over neighbour lists: sum_k w[i, k] x[ids[i, k]].

    A CPU computes `RECEIVERS` receivers at a time, so that their sums stay in the cache. The loop over the slots ends
    at the last slot that any of these receivers uses. Several slots are added in one pass, in their order, since each
    pass reads and writes the sums once.

    Args:
      weights: [N, K], zero at unused slots.
      ids: [N, K] int32, the sender at each slot.
      client_params: [N, ...] stacked trees.

    Returns:
      [N, ...] of at least single precision.
    """
    num_clients = ids.shape[0]
    last = ((0, 0), (0, -(ids.shape[1] - 1) % _PLACES))  # fills the last pass: the last sender again, with weight zero
    weights, ids = jnp.pad(weights, last), jnp.pad(ids, last, mode="edge")
    size = ids.shape[1]
    of_leaf = lambda x: x.astype(jnp.promote_types(x.dtype, jnp.float32))  # noqa: E731

    def of_receivers(rows: tuple[jax.Array, jax.Array]) -> ClientParams:
        weight, sender = rows
        used = jnp.max(jnp.where(weight != 0, jnp.arange(1, size + 1, dtype=jnp.int32), 1))

        def term(k: jax.Array, x: jax.Array) -> jax.Array:
            return rows_like(weight[:, k].astype(jnp.promote_types(x.dtype, jnp.float32)), x) * of_leaf(x[sender[:, k]])

        def with_places(step: jax.Array, so_far: ClientParams) -> ClientParams:
            places = [1 + step * _PLACES + k for k in range(_PLACES)]
            return jax.tree.map(lambda total, x: sum((term(k, x) for k in places), total), so_far, client_params)

        start = jax.tree.map(partial(term, jnp.int32(0)), client_params)
        return jax.lax.fori_loop(0, (used + _PLACES - 2) // _PLACES, with_places, start)

    if backend() != "cpu" or num_clients <= _RECEIVERS:
        return of_receivers((weights, ids))
    blocks = -(-num_clients // _RECEIVERS)
    cut = lambda x: jnp.pad(x, ((0, blocks * _RECEIVERS - num_clients), (0, 0))).reshape(blocks, _RECEIVERS, size)  # noqa: E731
    found = jax.lax.map(of_receivers, (cut(weights), cut(ids)))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:num_clients], found)


def _mix_lists(weights: jax.Array, senders: Senders, client_params: ClientParams) -> ClientParams:
    """Compute X <- W X, where W is given over neighbour lists."""
    num_clients = weights.shape[0]

    def of_rows(weights: jax.Array, ids: jax.Array, params: ClientParams) -> ClientParams:
        models = jax.tree.leaves(params)[0].shape[0]
        if models < num_clients:
            weights = jnp.where(ids < models, weights, jnp.nan)  # NaN shows a network that declares too small a reach
        found = listed_sums(weights, ids, params)
        return jax.tree.map(lambda new, x: new.astype(x.dtype), found, params)

    return by_near_rows(of_rows, weights, senders, client_params)


def mix(weights: jax.Array, client_params: ClientParams, bound: int = 0, senders: Senders = ALL_PAIRS) -> ClientParams:
    """Compute X <- W X with the faster kernel. A round in which a receiver has too many senders uses the dense product.

    The kernels agree on finite models. Through the lists, a model that has diverged to infinity reaches only its
    neighbours. Through the product it makes the models of all clients NaN, because 0 times infinity is NaN.

    Args:
      weights: [N, K], row i holds the weights of receiver i.
      client_params: [N, ...] stacked trees.
      bound: the largest number of senders in a list that is made of a matrix, the receiver included. 0 means
        `DEFAULT_BOUND` on a CPU with more than `DENSE_UP_TO` clients, and otherwise the dense product.
      senders: the clients at the K neighbour slots, `Links.senders`.

    Returns:
      The mixed trees, [N, ...].

    Raises:
      UserError: if the weights are not a matrix and the senders are not given.
    """
    num_clients = weights.shape[0]
    if senders.ids is not None:
        return _mix_lists(weights, senders, client_params)
    if weights.shape != (num_clients, num_clients):
        shape = " x ".join(map(str, weights.shape))
        raise UserError(
            f"weights of {shape} are of neighbour lists: mix(...) needs links.senders or engine.links=dense"
        )
    if not bound:
        if backend() != "cpu" or num_clients <= DENSE_UP_TO:
            return mix_dense(weights, client_params)
        bound = DEFAULT_BOUND
    if bound >= num_clients:
        return mix_dense(weights, client_params)
    neighbours = neighbour_list(weights, bound)

    def rows_of(rows: tuple[jax.Array, jax.Array, jax.Array], whole: tuple[jax.Array, ClientParams]) -> ClientParams:
        weights, sender, weight = rows
        most, params = whole
        listed = NeighbourList(sender, weight, most)
        return jax.lax.cond(most <= bound, partial(mix_listed, listed), partial(mix_dense, weights), params)

    rows = (weights, neighbours.sender, neighbours.weight)
    return by_rows(rows_of, rows, (neighbours.most, client_params))
