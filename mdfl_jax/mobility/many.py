"""How a rule of the grid is applied to very many clients, without an array of every client and every grid point.

A rule says how ONE client moves, and a draw among all L grid points makes arrays of L numbers. Mapped together, N
clients would need N x L numbers. So beyond a size, the clients are moved in chunks by a quick form of the rule, which
makes no such array. It may leave some of them unsettled, and these are then moved one by one by the rule itself.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.devices import backend
from mdfl_jax.core.trees import where_rows

LARGEST_AT_ONCE = 2**18  # clients times grid points that a CPU computes together
LARGEST_DENSE = 2**22  # clients times grid points beyond which no array of all of them is made, on any device
TRIES = 128  # how often the quick form of a rule may try to draw, for one client in one round


def is_dense(num_clients: int, points: int) -> bool:
    """Return whether arrays of all clients and all grid points, N x L numbers, may be made."""
    return num_clients * points <= LARGEST_DENSE


def in_chunks(function: Callable[..., Any], rows: tuple[Any, ...], size: int) -> Any:
    """Map a function over rows, so many rows at once, and one chunk after another.

    Args:
      function: takes one row of each of the trees.
      rows: trees whose leaves have the rows as their first axis, N of them.
      size: how many rows are mapped together, at least 1.

    Returns:
      The results of all rows, stacked: leaves [N, ...].

    >>> in_chunks(lambda x: x + 1, (jnp.arange(5),), 2).tolist()
    [1, 2, 3, 4, 5]
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    if size == 1:  # Rows are not mapped together, so that a ``cond`` skips what it need not do.
        return jax.lax.map(lambda row: function(*row), rows)
    size = min(size, count)
    chunks = -(-count // size)
    index = jnp.minimum(jnp.arange(chunks * size), count - 1)  # the last chunk is filled with copies of the last row
    cut = jax.tree.map(lambda leaf: leaf[index].reshape(chunks, size, *leaf.shape[1:]), rows)
    found = jax.lax.map(lambda chunk: jax.vmap(function)(*chunk), cut)
    return jax.tree.map(lambda leaf: leaf.reshape(chunks * size, *leaf.shape[2:])[:count], found)


def one_by_one(function: Callable[..., Any], rows: tuple[Any, ...], state: Any, due: jax.Array) -> Any:
    """Replace the rows of a state that are due, one after another. The others cost nothing.

    Args:
      function: (the row's place [] int32, one row of each of the trees, the row of the state) -> the new row.
      rows: trees that are only read, leaves [N, ...].
      state: the tree whose rows are replaced, leaves [N, ...].
      due: [N] bool, the rows that are replaced.

    Returns:
      The state with the new rows.

    >>> one_by_one(lambda i, x: x + 10 * i, (), jnp.arange(4), jnp.array([False, True, False, True])).tolist()
    [0, 11, 2, 33]
    """
    (order,) = jnp.nonzero(due, size=due.shape[0], fill_value=0)

    def replace(k: jax.Array, state: Any) -> Any:
        i = order[k].astype(jnp.int32)
        old, given = jax.tree.map(lambda leaf: leaf[i], (state, rows))
        return jax.tree.map(lambda leaf, new: leaf.at[i].set(new), state, function(i, *given, old))

    return jax.lax.fori_loop(0, jnp.sum(due), replace, state)


def always_settled(move: Callable[..., Any]) -> Callable[..., Any]:
    """Make the quick form of a rule that itself makes no array of L numbers: the rule, which settles every client."""

    def quick(world: Any, plan: Any) -> Callable[..., tuple[Any, jax.Array]]:
        return lambda key, client, tries: (move(key, client, world, plan), jnp.bool_(True))

    return quick


def over_clients(
    move: Callable[..., Any], quick: Callable[..., Any] | None, world: Any, plan: Any, keys: jax.Array, clients: Any
) -> Any:
    """Move all clients of a `mdfl_jax.mobility.grid.GridWorld` for one round.

    They are moved together, as long as this does not need too many numbers at once. Else a CPU moves them one after
    the other, so that a client that has not yet reached its destination skips the draw in its ``cond``. Where the rule
    has a quick form, this form settles most of them beforehand.

    Args:
      move, quick: as for `mdfl_jax.mobility.grid.grid_mobility`.
      world: the grid world.
      plan: the plan of the rule.
      keys: [N] typed keys, one for each client.
      clients: the clients, stacked.

    Returns:
      The clients after the round. Only the rows of mobile clients are meant to be used.
    """
    one = lambda key, client: move(key, client, world, plan)  # noqa: E731
    num_clients, points, on_cpu = world.start.shape[0], world.grid.shape[0], backend() == "cpu"
    at_once = LARGEST_AT_ONCE if on_cpu else LARGEST_DENSE
    if num_clients * points <= at_once:
        return jax.vmap(one)(keys, clients)
    if quick is None:
        return in_chunks(one, (keys, clients), 1 if on_cpu else max(1, at_once // points))
    draws = world.is_mobile & (clients.location == clients.destination)
    tries = jnp.where(draws, 0 if is_dense(num_clients, points) else TRIES, 0)
    order = jnp.argsort(~draws, stable=True)  # those that draw share their chunks, since a chunk waits for its last try
    rows = jax.tree.map(lambda leaf: leaf[order], (keys, clients, tries))
    found = in_chunks(quick(world, plan), rows, max(1, at_once // math.isqrt(points)))
    moved, settled = jax.tree.map(lambda leaf: leaf[jnp.argsort(order)], found)
    due = world.is_mobile & ~settled
    return one_by_one(lambda _, key, client: one(key, client), (keys,), where_rows(due, clients, moved), due)
