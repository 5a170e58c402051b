"""Client models of two functions: one that makes parameters, and one that applies them to samples."""

from collections.abc import Callable
from inspect import Parameter
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.batch_statistics import has_statistics
from mdfl_jax.core.contract import where
from mdfl_jax.core.errors import UserError
from mdfl_jax.models.client import ClientModel
from mdfl_jax.models.modes import filled_up, flags_in, parameters_of, told

KEYS = ("key", "rng", "rngs", "rng_key", "prng_key", "dropout_key")
"""Names of the argument of ``apply`` that is a key for random draws."""


class FunctionModel(ClientModel):
    """A client model of a pair of functions, as Haiku makes them, or of one's own.

    ``init(key, samples)`` returns the parameters: any tree of floating-point arrays. ``apply(params, samples)`` returns
    the outputs. ``apply`` may also have an argument of `KEYS`, which is a key for random draws in training and None in
    evaluation, and arguments of `mdfl_jax.models.modes.IN_TRAINING`. All these are found by their names, so they may
    stand anywhere behind ``params``.

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
        self.key = next((name for name in arguments if name in KEYS), "")
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
        if mask is not None:
            samples = filled_up(samples, mask)
        named: dict[str, Any] = dict(told(self.flags, trains))
        if self.key:
            named[self.key] = (rngs or {}).get("dropout") if trains else None
        before = [named.pop(name) for name in self.between]
        outputs = self.adapted_from(variables["params"], *before, samples, **named)
        return (outputs, {}) if mutable else outputs
