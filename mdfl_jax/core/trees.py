"""Combines one number per client with stacked trees, whose leaves have one row per client."""

from typing import Any

import jax
import jax.numpy as jnp


def rows_like(values: jax.Array, leaf: jax.Array) -> jax.Array:
    """Reshape one value per client so that it broadcasts with a stacked leaf.

    Args:
      values: [N].
      leaf: [N, ...].

    Returns:
      [N, 1, ..., 1], with the same number of axes as the leaf.

    >>> rows_like(jnp.arange(2), jnp.ones((2, 3, 4))).shape
    (2, 1, 1)
    """
    return values.reshape(-1, *[1] * (leaf.ndim - 1))


def where_rows(mask: jax.Array, new: Any, old: Any) -> Any:
    """Select each client's rows from one of two stacked trees.

    Args:
      mask: [N] bool.
      new: leaves [N, ...], used where the mask is True.
      old: leaves [N, ...], used where the mask is False.
    """
    return jax.tree.map(lambda n, o: jnp.where(rows_like(mask, o), n, o), new, old)


def of_types(tree: Any, like: Any) -> Any:
    """Convert the floating-point leaves of a tree to the types of another tree.

    It keeps the state of a network in single precision also where the models have 64 bits.

    Args:
      tree: the tree to convert.
      like: a tree of the same structure that has the wanted types.
    """

    def leaf(x: jax.Array, y: jax.Array) -> jax.Array:
        return x.astype(y.dtype) if jnp.issubdtype(y.dtype, jnp.floating) else x

    return jax.tree.map(leaf, tree, like)
