"""Gossip: every client takes the weighted mean of the models that it hears, its own included.

Two kernels with one meaning: a dense product, and a sum over bounded neighbour lists that reads what is heard and no
more. `mix` takes the lists where they are faster and a round fits them, and the product otherwise: nothing is cut off.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.rows import rows_like
from mdfl_jax.sharding import by_rows
from mdfl_jax.target import backend
from mdfl_jax.types import ClientParams

DENSE_UP_TO = 64  # clients; below, the product is as fast as the lists (benchmarks/README.md)
DEFAULT_BOUND = 16  # senders of a receiver, itself included


class NeighbourList(NamedTuple):
    """What each receiver hears, at most K senders, itself among them.

    Attributes:
      sender: [N, K] int32; places left over hold the receiver itself.
      weight: [N, K] float32, zero at places left over.
      most: [] int32 the largest number of senders of a receiver, which may be greater than K.
    """

    sender: jax.Array
    weight: jax.Array
    most: jax.Array


def neighbour_list(mix: jax.Array, bound: int) -> NeighbourList:
    """The first ``bound`` senders of non-zero weight of each row.

    Args:
      mix: [N, N].
      bound: K >= 1.

    >>> neighbour_list(jnp.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), 2).sender.tolist()
    [[0, 1], [0, 1], [2, 2]]
    """
    num_clients = mix.shape[0]
    heard = mix != 0
    rank = jnp.cumsum(heard, axis=1, dtype=jnp.int32)
    places = jnp.arange(1, bound + 1, dtype=jnp.int32)
    # The k-th sender stands where the running count first reaches k.
    found = jax.vmap(lambda row: jnp.searchsorted(row, places))(rank).astype(jnp.int32)
    present = found < num_clients
    receiver = jnp.arange(num_clients, dtype=jnp.int32)[:, None]
    sender = jnp.where(present, found, receiver)
    weight = jnp.where(present, jnp.take_along_axis(mix, sender, axis=1), 0.0)
    return NeighbourList(sender, weight, jnp.max(rank[:, -1]))


def mix_dense(mix: jax.Array, client_params: ClientParams) -> ClientParams:
    """X <- W X, leaf by leaf (MADFL II-B, consensus update).

    Args:
      mix: [N, N], row i holds the weights of receiver i.
      client_params: [N, ...] stacked trees.

    Returns:
      The mixed trees. Sums are of float32 at least, whatever the backend's default precision: averaging is where small
      differences between clients live.
    """

    def leaf(x: jax.Array) -> jax.Array:
        wide = jnp.promote_types(x.dtype, jnp.float32)
        return jnp.einsum("ij,j...->i...", mix, x, precision="highest", preferred_element_type=wide)

    return jax.tree.map(lambda x: leaf(x).astype(x.dtype), client_params)


def mix_listed(neighbours: NeighbourList, client_params: ClientParams) -> ClientParams:
    """The same over neighbour lists: K gathers, written out so that they fuse into one pass; no [N, K, d] array.

    Args:
      neighbours: with ``most`` at most K; else what lies beyond the lists is missing (`mix` sees to that).
      client_params: [N, ...] stacked trees.
    """

    sender, weight, _ = neighbours

    def leaf(x: jax.Array) -> jax.Array:
        wide = lambda k: rows_like(weight[:, k], x)  # noqa: E731
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        heard = [wide(k) * x[sender[:, k]].astype(dtype) for k in range(sender.shape[1])]
        return sum(heard[1:], heard[0]).astype(x.dtype)

    return jax.tree.map(leaf, client_params)


def mix(weights: jax.Array, client_params: ClientParams, bound: int = 0) -> ClientParams:
    """X <- W X by whichever kernel is faster; a round that does not fit the lists takes the dense product.

    The kernels agree on finite models. One that has diverged to infinity reaches its neighbours through the lists, and
    everybody as NaN through the product (0 times infinity).

    Args:
      weights: [N, N], row i holds the weights of receiver i.
      client_params: [N, ...] stacked trees.
      bound: senders in a list, the receiver included; 0: `DEFAULT_BOUND` on CPU above `DENSE_UP_TO` clients, else
        the dense product.
    """
    num_clients = weights.shape[0]
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
    return by_rows(rows_of, rows, (neighbours.most, client_params), num_clients)
