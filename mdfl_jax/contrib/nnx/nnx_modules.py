"""Modules of flax nnx as client models.

Importing nnx takes a third of a second, so only models of nnx import it.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.contract import where
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.own_files import error_words
from mdfl_jax.core.trees import STATISTICS
from mdfl_jax.models.adapters import (
    OTHERS,
    ClientModel,
    depends_on_key,
    flag_values,
    flags_in,
    parameters_of,
    without_padding,
)

_OWN_FLAGS = ("training", "is_training")  # attributes of users' modules; `train` is a method of every module
_ATTRIBUTES = ("deterministic", "use_running_average", *_OWN_FLAGS)


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


@OTHERS.register("nnx")
def nnx_model(model: Any) -> Any:
    """Return the client model of a class of nnx, or of a function that makes a module; None for anything else.

    Raises:
      UserError: for an instance of a module, or if the module cannot be made.
    """
    if _is_of_nnx(model) and not isinstance(model, type):
        raise UserError(
            f"the model is an instance of {type(model).__name__}; of a module of nnx its class is needed, or a "
            "function of rngs that makes it, so that each seed has its own initial model"
        )
    if not callable(model) or not (make := _of_streams(model)):
        return None
    try:
        return NNXModel(make)
    except UserError:
        raise
    except Exception as error:  # the user's module may raise any type
        raise UserError(f"the model {where(model).rpartition(': ')[2]} cannot be made: {error_words(error)}") from error


class NNXModel(ClientModel):
    """A client model around a module of flax nnx, of which each client has its own parameters.

    The parameters (``nnx.Param``) and the running statistics (``nnx.BatchStat``) belong to each client. Every other
    array of the module is a constant. In training, all random streams of the module start from the client's key. In
    evaluation they start from a fixed key, and the outputs must not depend on it; `check` refuses a module whose
    outputs do. A recurrent cell that takes a key for a state of zeros is accepted. The module is told whether it trains
    by the attributes of its layers (``deterministic``, ``use_running_average``), as ``Module.train`` and
    ``Module.eval`` do, and by arguments of its ``__call__`` if it has any of these names.

    Args:
      make: a function of ``nnx.Rngs`` that makes the module. It is called once here for the module's structure and
        constants, and once for each initial model.

    Raises:
      UserError: if the function makes anything else than a module of nnx.
    """

    def __init__(self, make: Callable[[Any], Any]):
        from flax import nnx

        self.make, self.nnx = make, nnx
        made = make(nnx.Rngs(0))
        if not isinstance(made, nnx.Module):
            raise UserError(f"the function for a model of nnx returned {type(made).__name__}, not an nnx.Module")
        self.adapted_from = type(made)
        arguments = parameters_of(type(made).__call__)
        self.flags, self.takes_streams = flags_in(arguments), "rngs" in arguments
        self.graph, *states = self._split(made)
        self.params, self.statistics, *fixed = map(_Named, states)
        self.fixed = [(named, named.arrays(state)) for named, state in zip(fixed, states[2:])]
        self.tags = sorted({stream.tag for _, stream in nnx.iter_graph(made) if isinstance(stream, nnx.RngStream)})
        own_flags = any(hasattr(part, name) for _, part in nnx.iter_modules(made) for name in _OWN_FLAGS)
        self.draws = bool(self.tags or self.flags or self.takes_streams or own_flags)

    def init(self, key: jax.Array, samples: jax.Array) -> Any:
        """Return the initial variables of the module that is made with the key; the samples are not used."""
        del samples
        made = self._split(self.make(self.nnx.Rngs(key)))
        named = {"params": self.params.arrays(made[1])}
        return named | {STATISTICS: self.statistics.arrays(made[2])} if self.statistics.names else named

    def apply(
        self,
        variables: Any,
        samples: jax.Array,
        mask: jax.Array | None = None,
        mutable: Any = False,
        rngs: dict[str, jax.Array] | None = None,
    ) -> Any:
        """Apply the module to samples [B, ...].

        Args:
          variables: the parameters and the batch statistics, as `init` returns them.
          samples: [B, ...].
          mask: [B] bool, given only in training; False for padding.
          mutable: anything true: the new batch statistics are returned too.
          rngs: the key of the random draws in training, called "dropout"; by default a fixed one.

        Returns:
          The outputs; or (outputs, {"batch_stats": ...}) if ``mutable``.

        Raises:
          UserError: if the module changes variables that are no statistics.
        """
        trains, key = mask is not None, (rngs or {}).get("dropout", jax.random.key(0))
        keys: dict[str, Any] = {tag: jax.random.fold_in(key, i) for i, tag in enumerate(self.tags)}
        params = self.params.state(variables["params"])
        statistics = self.statistics.state(variables.get(STATISTICS, {}))
        module = self.nnx.merge(self.graph, params, statistics, *(named.state(arrays) for named, arrays in self.fixed))
        module.set_attributes(**flag_values(_ATTRIBUTES, trains), raise_if_not_found=False)
        arguments: dict[str, Any] = flag_values(self.flags, trains)
        self.nnx.reseed(module, **keys)
        if self.takes_streams:
            arguments["rngs"] = self.nnx.Rngs(key) if trains else None
        outputs = module(without_padding(samples, mask), **arguments)
        after = self._split(module)
        if not _same(after[4], self.fixed[1][1]):
            name = self.adapted_from.__name__
            raise UserError(f"the model {name} changes or adds a variable that is neither nnx.Param nor nnx.BatchStat")
        return (outputs, {STATISTICS: self.statistics.arrays(after[2])}) if mutable else outputs

    def _split(self, module: Any) -> Any:
        """Return a module's structure, parameters, batch statistics, random streams and all that stays constant."""
        return self.nnx.split(module, self.nnx.Param, self.nnx.BatchStat, self.nnx.RngState, ...)

    def check(self, shapes: Any, samples: jax.Array) -> None:
        """Check that the outputs in evaluation do not depend on random draws."""
        if depends_on_key(lambda key, variables: self.apply(variables, samples, rngs={"dropout": key}), shapes):
            raise UserError(f"the model {self.adapted_from.__name__} draws random numbers in evaluation")


def _same(found: Any, held: dict[str, jax.Array]) -> bool:
    """Tell whether a state holds the very same arrays; values are not compared, as they may be traced."""
    leaves = jax.tree.leaves(found)
    return len(leaves) == len(held) and all(a is b for a, b in zip(leaves, held.values()))


class _Named:
    """The places of a state's arrays in the module: "dense.kernel" and so on."""

    def __init__(self, state: Any):
        self.structure = jax.tree.structure(state)
        places = (path for path, _ in jax.tree_util.tree_leaves_with_path(state))
        self.names = [jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value") for path in places]

    def arrays(self, state: Any) -> dict[str, jax.Array]:
        """Return the arrays of a state of this structure by name."""
        return dict(zip(self.names, map(jnp.asarray, jax.tree.leaves(state)), strict=True))

    def state(self, arrays: dict[str, jax.Array]) -> Any:
        """Return the state with the given arrays."""
        return jax.tree.unflatten(self.structure, [arrays[name] for name in self.names])
