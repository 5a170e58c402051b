"""Checks of random draws on traced programs: what depends on a key, and which dropout of a module is off in training.

A module of flax linen that no argument or field tells whether it is in training may find it out by the stream
"dropout": ``nn.Dropout(0.1, deterministic=not self.has_rng("dropout"))``. Such a module is given the stream in
training.
"""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.interpreters import partial_eval

from mdfl_jax.core.batch_statistics import STATISTICS
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.own_files import words
from mdfl_jax.models.linen_models import ByStream, uses_mask
from mdfl_jax.models.modes import IN_TRAINING
from mdfl_jax.models.registry import SampleSpec

KEYWORD = "deterministic"  # the argument and the field of flax's layers with dropout


def depends_on_key(function: Callable[..., Any], *shapes: Any) -> bool:
    """Tell whether the outputs of a function depend on the random key that is its first argument.

    The function is only traced. A key that is given to a function that makes zeros of it is not used.

    Args:
      function: a function of a key and of arrays.
      *shapes: the shapes of the arrays.

    >>> depends_on_key(lambda key: jax.random.normal(key)), depends_on_key(lambda key: jnp.zeros_like(key, float))
    (True, False)
    """
    traced = jax.make_jaxpr(function)(jax.random.key(0), *shapes).jaxpr
    return bool(partial_eval.dce_jaxpr(traced, [True] * len(traced.outvars))[1][0])


def with_stream(model: Any, shapes: Any, sample: SampleSpec) -> Any:
    """Return a client model that is given a stream in training, if a linen module without a mode draws from it.

    Any other client model is returned as it is.

    Args:
      model: a client model, from `mdfl_jax.models.client_model`.
      shapes: the shapes of its variables.
      sample: what a sample is.

    Raises:
      UserError: if some dropout of the module would be off in training, because nothing tells the module that it is in
        training; or if the module fails when it is given the stream.
    """
    if not isinstance(model, nn.Module) or hasattr(model, "draws"):
        return model
    name = type(model).__name__
    off: set[str] = set()
    samples, mask = jnp.zeros((2, *sample.shape), sample.dtype), jnp.ones(2, bool)
    given = (mask,) if uses_mask(model) else ()

    def watch(call: Callable[..., Any], args: Any, rest: Any, context: nn.module.InterceptorContext) -> Any:
        if context.method_name == "__call__" and _is_off(context.module, args, rest):
            off.add(type(context.module).__name__)
        return call(*args, **rest)

    def train(key: jax.Array, variables: Any) -> Any:
        return model.apply(variables, samples, *given, mutable=[STATISTICS], rngs={"dropout": key})

    try:
        with nn.intercept_methods(watch):
            by_stream = depends_on_key(train, shapes)
    except Exception as error:  # the user's model may raise any type
        raise UserError(f"the model {name} cannot be trained: {words(error)}") from error
    if off:
        raise UserError(
            f"the model {name} has {' and '.join(sorted(off))} with a rate above 0, and no argument tells it whether "
            f"it is in training ({', '.join(IN_TRAINING)}); mdfl_jax.models.adapt(model, 'name') names one that is "
            "called otherwise and is true in training"
        )
    return ByStream(model) if by_stream else model


def _is_off(module: nn.Module, args: Any, rest: Any) -> bool:
    """Tell whether a call is of one of flax's layers with dropout that is told not to draw."""
    if isinstance(module, nn.Dropout):
        told = rest.get(KEYWORD, args[1] if len(args) > 1 else None)
        rate = module.rate
    elif isinstance(module, nn.MultiHeadDotProductAttention):
        told, rate = rest.get(KEYWORD), module.dropout_rate
    else:
        return False
    return rate > 0 and (module.deterministic if told is None else told) is True
