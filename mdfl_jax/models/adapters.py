"""Makes client models of modules of flax linen or nnx, or of a pair of functions, and checks them."""

import dataclasses
import inspect
import sys
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.core.contract import where
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.own_files import words
from mdfl_jax.core.trees import STATISTICS
from mdfl_jax.models.client_models import (
    IN_TRAINING,
    Adapted,
    ClientModel,
    FunctionModel,
    WithFields,
    flags_in,
    parameters_of,
)
from mdfl_jax.models.model import SampleSpec


def adapt(model: Any, training: str = "") -> Any:
    """Make a client model of a usual model, which maps samples [B, ...] to outputs [B, C].

    A model may be

    - a module of flax linen;
    - the class of a module of flax nnx, or a function of ``rngs`` that makes one:
      ``lambda rngs: Net(64, 10, rngs=rngs)``;
    - a pair of functions (init, apply), or an object with these two methods.

    ``BatchNorm`` and ``Dropout`` work: the model is told whether it is in training or in evaluation, its batch
    statistics are exchanged or kept as ``algorithm.statistics`` says, and each client has its own random draws in each
    round. An adapted model of convolutions is slower than those of this package, which have the samples on the last
    axis. Studies and tasks adapt models by themselves; only a module with an argument of another name than those of
    `mdfl_jax.models.client_models.IN_TRAINING` needs this function.

    Args:
      model: the model.
      training: the argument of a linen module's ``__call__`` that tells whether it is in training. By default, all
        arguments are found that are in `IN_TRAINING`, or fields of the module. An argument that is not in `IN_TRAINING`
        is set to True in training.

    Raises:
      UserError: if the model is none of these, or has no argument ``training``.

    >>> import flax.linen as nn
    >>> class Net(nn.Module):
    ...     @nn.compact
    ...     def __call__(self, x, train):
    ...         return nn.BatchNorm(use_running_average=not train)(nn.Dense(3)(x.reshape(x.shape[0], -1)))
    >>> adapt(Net()).flags
    ('train',)
    """
    if not training:
        return client_model(model)
    if not isinstance(model, nn.Module):
        raise UserError(f"adapt's argument 'training' is {training!r}; it is only for modules of flax linen")
    if training not in parameters_of(type(model).__call__):
        raise UserError(f"the model {type(model).__name__} has not an argument {training!r}; adapt needs it")
    return Adapted(model, (training,))


def client_model(model: Any) -> Any:
    """Return a user's model in the form that the simulator calls: with ``init`` and ``apply``.

    A client model is returned as it is.

    Args:
      model: anything that `adapt` takes.

    Returns:
      A client model: ``init(key, samples)`` makes its variables, and ``apply(variables, samples, [mask], mutable=...,
      rngs=...)`` its outputs, as the methods of a linen module do. The mask is given only in training.

    Raises:
      UserError: if the model is nothing that `adapt` takes.
    """
    if hasattr(model, "adapted_from"):
        return model
    if isinstance(model, nn.Module):
        arguments = flags_in(parameters_of(type(model).__call__))
        fields = flags_in(field.name for field in dataclasses.fields(model))
        if arguments:
            return Adapted(model, arguments)
        return WithFields(model, fields) if fields else model
    if isinstance(model, tuple) and len(model) == 2:
        return FunctionModel(*model)
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise UserError(f"the model is the class {model.__name__}; of a module of linen an instance is needed")
    if _is_of_nnx(model) and not isinstance(model, type):
        raise UserError(
            f"the model is an instance of {type(model).__name__}; of a module of nnx its class is needed, or a "
            "function of rngs that makes it, so that each seed has its own initial model"
        )
    if callable(getattr(model, "init", None)) and callable(getattr(model, "apply", None)):
        return FunctionModel(model.init, model.apply)
    if callable(model) and (make := _of_streams(model)):
        return _of_nnx(model, make)
    raise UserError(
        f"the model is {model!r}; it must be a module of flax linen, the class of a module of nnx, a function of rngs "
        "that makes one, or a pair of functions (init, apply)"
    )


def _is_of_nnx(model: Any) -> bool:
    """Tell whether something is a module of nnx or such a class. It does not import nnx, which takes time."""
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and issubclass(model if isinstance(model, type) else type(model), nnx.Module)


def _of_streams(make: Any) -> Callable[[Any], Any] | None:
    """Return a class or a function with an argument ``rngs``, or with one argument, as a function of one argument."""
    of_class = isinstance(make, type)  # the signatures of nnx's classes are empty, those of their __init__ are not
    arguments = list(parameters_of(inspect.getattr_static(make, "__init__") if of_class else make).values())[of_class:]
    if any(one.name == "rngs" for one in arguments):
        return lambda rngs: make(rngs=rngs)
    required = [one for one in arguments if one.default is one.empty]
    return make if len(required) == 1 and required[0].kind <= required[0].POSITIONAL_OR_KEYWORD else None


def _of_nnx(model: Any, make: Callable[[Any], Any]) -> Any:
    from mdfl_jax.models.client_models import NNXModel  # importing nnx takes time

    try:
        return NNXModel(make)
    except UserError:
        raise
    except Exception as error:  # the user's module may raise any type
        raise UserError(f"the model {where(model).rpartition(': ')[2]} cannot be made: {words(error)}") from error


def variables_of(model: Any, sample: SampleSpec, num_outputs: int, per_position: bool = False) -> Any:
    """Return the shapes of a model's variables, after checks that the model can be trained and evaluated.

    Args:
      model: a client model, from `client_model`.
      sample: what a sample is.
      num_outputs: C.
      per_position: whether the outputs must be [B, T, C] and not [B, C].

    Raises:
      UserError: if the model cannot be called with samples alone, or fails in training; if its outputs have another
        shape or are random in evaluation; or if it has batch statistics and nothing that says whether it is in
        training.
    """
    name, samples, mask = _name(model), jnp.zeros((2, *sample.shape), sample.dtype), jnp.ones(2, bool)
    wanted = (2, *sample.shape[:1], num_outputs) if per_position else (2, num_outputs)
    try:
        shapes = jax.eval_shape(model.init, jax.random.key(0), samples)
        outputs = jax.eval_shape(model.apply, shapes, samples)  # without random keys: only training may draw
    except Exception as error:  # the user's model may raise any type
        raise UserError(f"the model {name} cannot be called with {_shown(samples)} alone: {words(error)}") from error
    _check_outputs(model, samples, outputs, wanted)
    if isinstance(model, ClientModel):
        model.check(shapes, samples)
    if unknown := set(shapes) - {"params", STATISTICS}:
        raise UserError(f"the model {name} has variables {sorted(unknown)}; clients have params and batch_stats only")
    if not shapes.get("params"):
        raise UserError(f"the model {name} has no parameters")
    if STATISTICS in shapes and not takes_mask(model):
        raise UserError(
            f"the model {name} has batch statistics, and no argument tells it whether it is in training "
            f"({', '.join(IN_TRAINING)}); mdfl_jax.models.adapt names one that is called otherwise"
        )
    if STATISTICS in shapes or draws(model):
        rngs = {"dropout": jax.random.key(0)}
        try:
            train = lambda v: model.apply(v, samples, mask, mutable=[STATISTICS], rngs=rngs)[0]  # noqa: E731
            outputs = jax.eval_shape(train, shapes)
        except Exception as error:
            raise UserError(f"the model {name} cannot be trained: {words(error)}") from error
        _check_outputs(model, samples, outputs, wanted)
    return shapes


def draws(model: Any) -> bool:
    """Tell whether a client model may draw random numbers in training."""
    return bool(getattr(model, "draws", False))


def takes_mask(model: Any) -> bool:
    """Tell whether a client model takes a mask of its samples in training."""
    return hasattr(model, "adapted_from") or "mask" in parameters_of(type(model).__call__)


def _written(model: Any) -> Any:
    """Return what the user wrote: a class of modules, or the function that applies parameters."""
    return getattr(model, "adapted_from", type(model))


def _name(model: Any) -> str:
    return where(_written(model)).rpartition(": ")[2]


def _shown(array: Any) -> str:
    return f"samples {array.dtype}[{', '.join(map(str, array.shape))}]"


def _check_outputs(model: Any, samples: jax.Array, found: Any, wanted: tuple[int, ...]) -> None:
    """Raise a `UserError` that names the user's file and line if the outputs have another shape or no floats."""
    if getattr(found, "shape", None) == wanted and jnp.issubdtype(found.dtype, jnp.floating):
        return
    written = _written(model)
    place = where(written.__call__ if isinstance(written, type) else written).rpartition(": ")[0]
    shape = f"{found.dtype}{list(found.shape)}" if hasattr(found, "shape") else type(found).__name__
    raise UserError(
        f"{place}{': ' if place else ''}the model {_name(model)} returned {shape} for {_shown(samples)}; "
        f"it must be float32{list(wanted)}"
    )
