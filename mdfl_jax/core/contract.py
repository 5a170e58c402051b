"""Checks that a function of an entry returns arrays of the structure, shapes and kinds that its caller needs.

JAX also finds such a mistake, but far from the function, in a loop of the compiled program. The checks read shapes
while a program is traced. The compiled program is the same with and without them.
"""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError


def where(function: Callable[..., Any]) -> str:
    """Return the place and the name of a function for a message: "my_rule.py:12: move"; for others their name."""
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    function = inspect.unwrap(function)
    return own_files.located(getattr(function, "__name__", type(function).__name__), function)


def like(function: Callable[..., Any], found: Any, wanted: Any) -> None:
    """Check what a function has returned against a tree of arrays of the right structure and shapes.

    Types need to agree only in their kind: a bool, a whole number, a float or a key.

    Args:
      function: the function, which the message names.
      found: the tree that it has returned.
      wanted: a tree of arrays, or of their shapes (`jax.ShapeDtypeStruct`), as it must be.

    Raises:
      UserError: if they differ. The message shows what was returned and what must be returned.
    """
    structure: Any = jax.tree.structure(wanted)
    if structure != jax.tree.structure(found):
        raise UserError(f"{where(function)} returned {_structure(found)}; it must return {_structure(wanted)}")
    leaves = jax.tree_util.tree_leaves_with_path(wanted)
    for got, (path, leaf) in zip(jax.tree.leaves(found), leaves):
        if np.shape(got) != np.shape(leaf) or _kind(got) != _kind(leaf):
            field = f" in {jax.tree_util.keystr(path)}" if path else ""
            raise UserError(f"{where(function)} returned {_array(got)}{field}; it must be {_array(leaf)}")


def arrays(function: Callable[..., Any], found: Any, shape: tuple[int, ...], kind: Any) -> Any:
    """Check that a function has returned one array of a shape and a kind (float, int or bool), as `like` does.

    Returns:
      The array.
    """
    like(function, found, of_kind(shape, kind))
    return found


def reported(function: Callable[..., Any], found: Any, why: str) -> Any:
    """Check that a round has returned a part of the report of its exchange, and return this part.

    Args:
      function: the round, which the message names.
      found: the part; None: the round has not returned it.
      why: the purpose of the part, in words.

    Raises:
      UserError: if the part is missing. An exchange that cannot return its report, as in a loop, cannot have such a
        rule.
    """
    if found is None:
        raise UserError(
            f"{where(function)} returned no report of its exchange, {why}; what settings.aggregate reports belongs "
            "into RoundStats(..., report=report), or into Exchanged(models, report) of an exchange of local_then"
        )
    return found


def of_kind(shape: tuple[int, ...], kind: Any) -> jax.ShapeDtypeStruct:
    """Return the shape of an array of floats, whole numbers or bools, for the argument ``wanted`` of `like`."""
    return jax.ShapeDtypeStruct(shape, {float: jnp.float32, int: jnp.int32, bool: jnp.bool_}[kind])


def _kind(leaf: Any) -> str:
    dtype = getattr(leaf, "dtype", None) or np.asarray(leaf).dtype
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return "key"
    kinds = {"bool": jnp.bool_, "int": jnp.integer, "float": jnp.floating}
    return next((name for name, kind in kinds.items() if jnp.issubdtype(dtype, kind)), str(dtype))


def _array(leaf: Any) -> str:
    dtype = getattr(leaf, "dtype", None) or np.asarray(leaf).dtype
    return f"{dtype}[{', '.join(map(str, np.shape(leaf)))}]"


def _structure(tree: Any) -> str:
    """Show a tree with the type and shape of each array, without the code of its classes."""
    if tree is None:
        return "None"
    fields = getattr(tree, "_fields", None)
    if isinstance(tree, tuple) and fields:
        return f"{type(tree).__name__}({', '.join(f'{k}={_structure(v)}' for k, v in zip(fields, tree))})"
    if isinstance(tree, tuple | list):
        return f"({', '.join(map(_structure, tree))}{',' * (len(tree) == 1)})"
    if isinstance(tree, dict):
        return f"{{{', '.join(f'{k}: {_structure(v)}' for k, v in tree.items())}}}"
    return _array(tree) if hasattr(tree, "dtype") or np.isscalar(tree) else type(tree).__name__


def takes(function: Callable[..., Any], argument: str, why: str) -> None:
    """Check that a function has a keyword argument.

    Args:
      function: the function, which the message names.
      argument: the name of the argument.
      why: the purpose of the argument, in words.

    Raises:
      UserError: if the function has no such argument.
    """
    if not has_argument(function, argument):
        raise UserError(f"{where(function)} has no argument {argument!r}, {why}")


def has_argument(function: Callable[..., Any], argument: str) -> bool:
    """Tell whether a function has a keyword argument."""
    parameters = inspect.signature(function).parameters
    return argument in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
