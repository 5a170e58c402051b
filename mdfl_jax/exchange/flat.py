"""Conversion of stacked trees to one matrix with a row a client, and back, for code that acts on whole messages."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from mdfl_jax.core.types import ClientParams


def ravel(client_params: ClientParams) -> tuple[jax.Array, Callable[[jax.Array], ClientParams]]:
    """Flatten stacked trees [N, ...] to a matrix [N, n], with the coordinates in the order of the leaves.

    Args:
      client_params: [N, ...] stacked trees.

    Returns:
      (x [N, n], unravel), where unravel maps [M, n] to trees [M, ...] with the shapes and types of the leaves.

    >>> x, unravel = ravel({"a": jnp.ones((2, 3)), "b": jnp.zeros((2, 1, 2))})
    >>> x.shape, jax.tree.map(jnp.shape, unravel(x[:1]))
    ((2, 5), {'a': (1, 3), 'b': (1, 1, 2)})
    """
    leaves, structure = jax.tree.flatten(client_params)
    shapes, dtypes = [leaf.shape[1:] for leaf in leaves], [leaf.dtype for leaf in leaves]
    rows = [leaf.reshape(leaf.shape[0], -1) for leaf in leaves]
    ends = [sum(row.shape[1] for row in rows[: k + 1]) for k in range(len(rows))]

    def unravel(x: jax.Array) -> ClientParams:
        parts = jnp.split(x, ends[:-1], axis=1)
        shaped = [p.reshape(p.shape[0], *shape).astype(dtype) for p, shape, dtype in zip(parts, shapes, dtypes)]
        return jax.tree.unflatten(structure, shaped)

    return jnp.concatenate(rows, axis=1), unravel
