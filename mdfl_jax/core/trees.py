"""Stacked trees, whose leaves have one row for each client: selection of rows and of leaves, and batch statistics.

Batch statistics are a part of the model, beside the trained parameters. The model of a task with batch normalisation is
{"params": ..., "batch_stats": ...}; any other model is the tree of its parameters. A running statistic is treated like
a parameter: it is sent, mixed and relayed with the parameters, as if PyTorch state dictionaries were averaged. Its
gradient is momentum * (statistic - the batch's statistic), which is the gradient of a quadratic around the batch's
statistic. A plain step of length one therefore gives the usual running average; no optimiser, decay or learning rate is
applied to it. With ``algorithm.statistics=local`` an algorithm exchanges only the trained parameters (as FedBN does; Li
et al., ICLR 2021).
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError

STATISTICS = "batch_stats"
KEPT = ("mixed", "local")  # the statistics are exchanged with the parameters, or stay with each client


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
    """Convert the arrays of a tree to the types of another tree.

    So the state of a network stays in single precision even if the models have 64 bits. A leaf stays as it is if the
    kinds differ: a whole number is not converted to a float, nor a float to a whole number.

    Args:
      tree: the tree to convert.
      like: a tree of the same structure that has the wanted types.
    """

    def leaf(x: jax.Array, y: jax.Array) -> jax.Array:
        kind = next((kind for kind in (jnp.floating, jnp.integer) if jnp.issubdtype(y.dtype, kind)), None)
        return x.astype(y.dtype) if kind and jnp.issubdtype(x.dtype, kind) else x

    return jax.tree.map(leaf, tree, like)


def ravel(client_params: Any) -> tuple[jax.Array, Callable[[jax.Array], Any]]:
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

    def unravel(x: jax.Array) -> Any:
        parts = jnp.split(x, ends[:-1], axis=1)
        shaped = [p.reshape(p.shape[0], *shape).astype(dtype) for p, shape, dtype in zip(parts, shapes, dtypes)]
        return jax.tree.unflatten(structure, shaped)

    return jnp.concatenate(rows, axis=1), unravel


def leaf_paths(tree: Any) -> list[str]:
    """Return the paths of the leaves of a tree, in their order.

    >>> leaf_paths({"Dense_0": {"bias": 1.0, "kernel": 2.0}})
    ['Dense_0/bias', 'Dense_0/kernel']
    """
    return [path_of(keys) for keys, _ in jax.tree_util.tree_leaves_with_path(tree)]


def path_of(keys: tuple[Any, ...]) -> str:
    """Return the path of a leaf from the keys that `jax.tree_util` gives it."""
    return jax.tree_util.keystr(keys, simple=True, separator="/")


def patterns_in(text: str) -> list[str]:
    """Return the patterns of a text that separates them by commas.

    >>> patterns_in("*/kernel, head/*,")
    ['*/kernel', 'head/*']
    """
    return [pattern.strip() for pattern in text.split(",") if pattern.strip()]


def chosen_leaves(tree: Any, patterns: str, field: str = "the pattern", inside: bool = True) -> Any:
    """Return a tree with None in place of the leaves that are not chosen; JAX does not count None as a leaf.

    Args:
      tree: any tree.
      patterns: patterns of paths, separated by commas, in which * stands for any text; empty: all leaves.
      field: the name of the patterns in an error message.
      inside: False chooses the other leaves, which match no pattern.

    Raises:
      UserError: if a pattern matches no leaf.

    >>> chosen_leaves({"Dense_0": {"bias": 1.0, "kernel": 2.0}}, "*/bias")
    {'Dense_0': {'bias': 1.0, 'kernel': None}}
    """
    listed = patterns_in(patterns) or ["*"]
    paths = leaf_paths(tree)
    for pattern in listed:
        if not any(fnmatchcase(path, pattern) for path in paths):
            raise UserError(f"{field} is {patterns!r}; {pattern!r} matches none of the leaves {', '.join(paths)}")
    matches = lambda keys: any(fnmatchcase(path_of(keys), pattern) for pattern in listed)  # noqa: E731
    return jax.tree_util.tree_map_with_path(lambda keys, leaf: leaf if matches(keys) == inside else None, tree)


def joined_leaves(some: Any, rest: Any) -> Any:
    """Join two trees of `chosen_leaves`: the leaf of ``some`` if there is one, else that of ``rest``."""
    return jax.tree.map(lambda x, y: y if x is None else x, some, rest, is_leaf=lambda x: x is None)


def has_statistics(model: Any) -> bool:
    """Tell whether a model, stacked or not, has batch statistics."""
    return isinstance(model, dict) and set(model) == {"params", STATISTICS}


def trained(model: Any) -> Any:
    """Return the trained parameters of a model: the whole model, or everything except its batch statistics.

    >>> trained({"params": {"w": 1.0}, "batch_stats": {"mean": 0.0}}), trained({"w": 1.0})
    ({'w': 1.0}, {'w': 1.0})
    """
    return model["params"] if has_statistics(model) else model


def with_trained(model: Any, params: Any) -> Any:
    """Return the model with other parameters and unchanged batch statistics."""
    return {"params": params, STATISTICS: model[STATISTICS]} if has_statistics(model) else params


def exchanged(model: Any, local: bool) -> Any:
    """Return the part of a model that is exchanged: without batch statistics if these are ``local``."""
    return trained(model) if local else model


def received(model: Any, part: Any, local: bool) -> Any:
    """Return the model after an exchange.

    Args:
      model: the model before the exchange.
      part: the result of exchanging what `exchanged` returned.
      local: whether the batch statistics stay with each client.
    """
    return with_trained(model, part) if local else part


def each(of_trained: Callable[..., Any], of_statistics: Callable[..., Any], *models: Any) -> Any:
    """Map the leaves of models of one structure, with a function for parameters and one for batch statistics.

    Args:
      of_trained: the function for leaves of trained parameters, with one argument for each model.
      of_statistics: the function for leaves of batch statistics, with one argument for each model.
      *models: the models.
    """
    if not has_statistics(models[0]):
        return jax.tree.map(of_trained, *models)
    return {
        "params": jax.tree.map(of_trained, *(model["params"] for model in models)),
        STATISTICS: jax.tree.map(of_statistics, *(model[STATISTICS] for model in models)),
    }
