"""Values of one number a client, beside stacked trees whose leaves have a row a client."""

from typing import Any

import jax
import jax.numpy as jnp


def rows_like(values: jax.Array, leaf: jax.Array) -> jax.Array:
    """One value a client in the shape that meets a stacked leaf.

    Args:
      values: [N].
      leaf: [N, ...].

    Returns:
      [N, 1, ..., 1], with as many axes as the leaf.

    >>> rows_like(jnp.arange(2), jnp.ones((2, 3, 4))).shape
    (2, 1, 1)
    """
    return values.reshape(-1, *[1] * (leaf.ndim - 1))


def where_rows(mask: jax.Array, new: Any, old: Any) -> Any:
    """Client by client one of two stacked trees: the new one where the mask [N] is true."""
    return jax.tree.map(lambda n, o: jnp.where(rows_like(mask, o), n, o), new, old)
