"""Client models: what a user wrote, modules of flax linen or a pair of functions, in the form of the simulator.

A client model has the methods ``init`` and ``apply`` of a module of flax linen. It is in training if it is given the
mask of its samples, and it tells the user's model so by that model's own arguments or fields. A module without such an
argument may find it out by the stream "dropout": ``nn.Dropout(0.1, deterministic=not self.has_rng("dropout"))``. Such a
module is given the stream in training (`with_stream`). Modules of other libraries have adapters in contrib (`OTHERS`).
"""

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator
from inspect import Parameter
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.core.contract import where
from mdfl_jax.core.errors import UserError, errors_about
from mdfl_jax.core.own_files import digest_of_code, error_words
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.traced import live
from mdfl_jax.core.trees import STATISTICS, has_statistics
from mdfl_jax.models.model import MODELS, SampleSpec
from mdfl_jax.storage.given import GIVEN, keep_known

IN_TRAINING = {
    "train": True,
    "training": True,
    "is_training": True,
    "deterministic": False,
    "use_running_average": False,
}
"""Names by which models distinguish training from evaluation, with their values in training."""
_KEYS = ("key", "rng", "rngs", "rng_key", "prng_key", "dropout_key")
"""Names of the argument of ``apply`` that is a key for random draws."""
KEYWORD = "deterministic"  # the argument and the field of flax's layers with dropout
OTHERS: Registry[Callable[[Any], Any]] = Registry("library of models", contrib="nnx")
"""Adapters of models of other libraries: (model) -> client model, or None if the model is not of this library."""


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
    `mdfl_jax.models.adapters.IN_TRAINING` needs this function.

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
    if callable(getattr(model, "init", None)) and callable(getattr(model, "apply", None)):
        return FunctionModel(model.init, model.apply)
    for library in OTHERS:
        if (made := OTHERS[library](model)) is not None:
            return made
    raise UserError(
        f"the model is {model!r}; it must be a module of flax linen, the class of a module of nnx, a function of rngs "
        "that makes one, or a pair of functions (init, apply)"
    )


@contextlib.contextmanager
def known_model(model: Any) -> Iterator[str]:
    """Make a model known by a name inside the context.

    The name contains a digest of the model's code and values. So a study with the same settings and another model is
    another study.

    Args:
      model: anything that `adapt` takes.

    Yields:
      The name for the field model.name.

    Raises:
      UserError: if the model is nothing that `adapt` takes, or holds an object whose value cannot be told.
    """
    made = client_model(model)
    with errors_about("model"):
        name = f"{GIVEN}{digest_of_code([model])}"
    add = MODELS.register(name, doc="A model that a Python program has given.")
    with keep_known(name, lambda: add(lambda settings: made), lambda: MODELS.remove(name)):
        yield name


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
        raise UserError(
            f"the model {name} cannot be called with {_shown(samples)} alone: {error_words(error)}"
        ) from error
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
            raise UserError(f"the model {name} cannot be trained: {error_words(error)}") from error
        _check_outputs(model, samples, outputs, wanted)
    return shapes


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
        raise UserError(f"the model {name} cannot be trained: {error_words(error)}") from error
    if off:
        raise UserError(
            f"the model {name} has {' and '.join(sorted(off))} with a rate above 0, and no argument tells it whether "
            f"it is in training ({', '.join(IN_TRAINING)}); mdfl_jax.models.adapt(model, 'name') names one that is "
            "called otherwise and is true in training"
        )
    return ByStream(model) if by_stream else model


def _is_off(module: nn.Module, args: Any, rest: Any) -> bool:
    """Tell whether a call is of one of flax's layers with dropout, and switches its draws off."""
    if isinstance(module, nn.Dropout):
        told = rest.get(KEYWORD, args[1] if len(args) > 1 else None)
        rate = module.rate
    elif isinstance(module, nn.MultiHeadDotProductAttention):
        told, rate = rest.get(KEYWORD), module.dropout_rate
    else:
        return False
    return rate > 0 and (module.deterministic if told is None else told) is True


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
    return bool(live(traced)[1][0])


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


def draws(model: Any) -> bool:
    """Tell whether a client model may draw random numbers in training."""
    return bool(getattr(model, "draws", False))


def takes_mask(model: Any) -> bool:
    """Tell whether a client model takes a mask of its samples in training."""
    return hasattr(model, "adapted_from") or "mask" in parameters_of(type(model).__call__)


def uses_mask(module: nn.Module) -> bool:
    """Tell whether a module, or the module in `SamplesLast`, has an argument ``mask``."""
    inside = module.inner if isinstance(module, SamplesLast) else module
    return "mask" in parameters_of(type(inside).__call__)


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function by name; none for a function of C, whose signature is unknown."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def flags_in(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the names that are in `IN_TRAINING`."""
    return tuple(name for name in names if name in IN_TRAINING)


def flag_values(flags: Iterable[str], trains: bool) -> dict[str, Any]:
    """Return the values of flags in training or in evaluation.

    A flag that is not in `IN_TRAINING` is True in training.

    >>> flag_values(["train", "deterministic"], trains=True)
    {'train': True, 'deterministic': False}
    """
    return {flag: IN_TRAINING.get(flag, True) == trains for flag in flags}


def without_padding(samples: jax.Array, mask: jax.Array | None) -> jax.Array:
    """Replace padding by copies of the real samples, so that only their values are in the batch statistics.

    The copies take the real samples in turn. So some count once more than others, and the statistics are close to those
    of the real samples; they are equal where the number of copies is a multiple of the number of real samples.

    Args:
      samples: [B, ...].
      mask: [B] bool, False for padding; None where nothing is padding, as in an evaluation.
    """
    if mask is None:
        return samples
    present = jnp.argsort(~mask, stable=True)
    turn = jnp.cumsum(~mask) - 1  # the number of each padding sample, from 0
    return samples[jnp.where(mask, jnp.arange(mask.shape[0]), present[turn % jnp.maximum(jnp.sum(mask), 1)])]


class ClientModel:
    """A client model around a user's model. It has the methods ``init`` and ``apply`` of a module of flax linen.

    ``init(key, samples)`` makes the variables, and ``apply(variables, samples, [mask], mutable=..., rngs=...)`` the
    outputs. The mask [B] bool is given only in training; False for padding.

    Attributes:
      adapted_from: what the user wrote, for messages: the class of a module, or the function that applies parameters.
      draws: whether the model may draw random numbers in training.
    """

    adapted_from: Callable[..., Any]
    draws: bool

    def check(self, shapes: Any, samples: jax.Array) -> None:
        """Check what only this kind of model can get wrong in evaluation. The base class checks nothing.

        Args:
          shapes: the shapes of the variables.
          samples: [B, ...].

        Raises:
          UserError: if the model cannot be evaluated.
        """


class Adapted(nn.Module):
    """A client model around a module whose ``__call__`` has arguments that tell whether it is in training.

    Attributes:
      inner: the module.
      flags: the names of the arguments.
    """

    inner: nn.Module
    flags: tuple[str, ...]
    draws = True  # in training the module may draw from Flax's stream "dropout"

    @nn.compact
    def __call__(self, samples: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Return the outputs for samples [B, ...]; ``mask`` [B] bool is given only in training, False for padding."""
        samples = without_padding(samples, mask)
        return self.inner(samples, **flag_values(self.flags, mask is not None))

    @property
    def adapted_from(self) -> Callable[..., Any]:
        """The module's class, for messages."""
        return type(self.inner)


class WithFields(ClientModel):
    """A client model around a module with fields that tell whether it is in training, as in ``Net(train=True)``.

    Args:
      inner: the module.
      flags: the names of the fields.
    """

    draws = True

    def __init__(self, inner: nn.Module, flags: tuple[str, ...]):
        self.inner, self.flags, self.adapted_from = inner, flags, type(inner)

    def init(self, key: jax.Array, samples: jax.Array) -> Any:
        """Return the module's initial variables."""
        return self.inner.clone(**flag_values(self.flags, False)).init(key, samples)

    def apply(self, variables: Any, samples: jax.Array, mask: jax.Array | None = None, **rest: Any) -> Any:
        """Apply the module as its own method ``apply`` does; ``mask`` [B] bool is given only in training."""
        module = self.inner.clone(**flag_values(self.flags, mask is not None))
        return module.apply(variables, without_padding(samples, mask), **rest)


class ByStream(ClientModel):
    """A client model around a module that draws if, and only if, it is given the stream "dropout".

    Args:
      inner: the module, which may use a mask.
    """

    draws = True

    def __init__(self, inner: nn.Module):
        self.inner, self.takes_mask, self.adapted_from = inner, uses_mask(inner), type(inner)

    def init(self, key: jax.Array, samples: jax.Array) -> Any:
        """Return the module's initial variables."""
        return self.inner.init(key, samples)

    def apply(self, variables: Any, samples: jax.Array, mask: jax.Array | None = None, **rest: Any) -> Any:
        """Apply the module as its own method ``apply`` does; ``rngs`` and ``mask`` [B] bool belong to training."""
        given = () if mask is None or not self.takes_mask else (mask,)
        return self.inner.apply(variables, samples, *given, **rest)


class SamplesLast(nn.Module):
    """A client model around a module whose input is [channels, H, W, B], with the samples last.

    The models of this package use this layout internally, because it is faster on CPUs.

    Attributes:
      inner: a module from [channels, H, W, B] to outputs [B, C]. It takes a mask as its second argument if it has batch
        statistics. A module for `adapt` cannot be used here, because its samples are on the first axis.
    """

    inner: nn.Module

    @nn.compact
    def __call__(self, images: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Return the outputs [B, C] of images [B, H, W, channels]; ``mask`` [B] bool is given only in training."""
        given = () if mask is None else (mask,)
        return self.inner(jnp.transpose(images, (3, 1, 2, 0)), *given)


class FunctionModel(ClientModel):
    """A client model of a pair of functions, as Haiku makes them, or of one's own.

    ``init(key, samples)`` returns the parameters: any tree of floating-point arrays. ``apply(params, samples)`` returns
    the outputs. ``apply`` may also have an argument of `_KEYS`, which is a key for random draws in training and None in
    evaluation, and arguments of `IN_TRAINING`. All these are found by their names, so they may stand anywhere behind
    ``params``.

    Args:
      init: makes the parameters.
      apply: makes the outputs.

    Raises:
      UserError: if one of them is no function.
    """

    def __init__(self, init: Callable[..., Any], apply: Callable[..., Any]):
        for name, function in (("init", init), ("apply", apply)):
            if not callable(function):
                raise UserError(f"{name} of a model's pair (init, apply) is {function!r}; it must be a function")
        self.make, self.adapted_from = init, apply
        arguments = parameters_of(apply)
        self.flags = flags_in(arguments)
        self.key = next((name for name in arguments if name in _KEYS), "")
        self.draws = bool(self.flags or self.key)
        self.between = self._before_samples(arguments)

    def _before_samples(self, arguments: dict[str, Parameter]) -> list[str]:
        """Return the named arguments that stand between ``params`` and the samples; they are given by position."""
        positional = [name for name, one in arguments.items() if one.kind is not Parameter.KEYWORD_ONLY][1:]
        named = (self.key, *self.flags)
        first = next((i for i, name in enumerate(positional) if name not in named), 0)
        return positional[:first]

    def init(self, key: jax.Array, samples: jax.Array) -> Any:
        """Return the initial variables.

        Raises:
          UserError: if ``init`` returns no floating-point arrays, or a tree that could be mistaken for parameters with
            batch statistics.
        """
        params = jax.tree.map(jnp.asarray, self.make(key, samples))
        for path, leaf in jax.tree_util.tree_leaves_with_path(params):
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                place = jax.tree_util.keystr(path)
                raise UserError(f"{where(self.make)} returned {leaf.dtype} in {place}; parameters must be floats")
        if not jax.tree.leaves(params):
            raise UserError(f"{where(self.make)} returned no parameters")
        if has_statistics(params):
            raise UserError(
                f"{where(self.make)} returned batch statistics beside params; give the flax module itself as the model"
            )
        return {"params": params}

    def apply(
        self,
        variables: Any,
        samples: jax.Array,
        mask: jax.Array | None = None,
        mutable: Any = False,
        rngs: dict[str, jax.Array] | None = None,
    ) -> Any:
        """Apply the parameters to samples [B, ...].

        Args:
          variables: as `init` returns them.
          samples: [B, ...].
          mask: [B] bool, given only in training; False for padding.
          mutable: anything true: an empty dictionary is returned too, as for a Flax module without batch statistics.
          rngs: the key of the random draws in training, called "dropout".
        """
        trains = mask is not None
        named: dict[str, Any] = dict(flag_values(self.flags, trains))
        if self.key:
            named[self.key] = (rngs or {}).get("dropout") if trains else None
        before = [named.pop(name) for name in self.between]
        outputs = self.adapted_from(variables["params"], *before, without_padding(samples, mask), **named)
        return (outputs, {}) if mutable else outputs
