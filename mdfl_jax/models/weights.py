"""Files of weights that other programs have made, and from which a model can start (`model.pretrained`)."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from mdfl_jax.core.registry import Registry


class Used(Protocol):
    """A report on the tensors of a file."""

    def describe(self) -> str:
        """Return the report in one line."""


class WeightFormat(NamedTuple):
    """A format of files of weights.

    Attributes:
      models: the models whose weights such a file can hold, by their names in `mdfl_jax.models.model.MODELS`.
      read: (path) -> the tensors by name.
      match: (the tensors, the shapes of a model's variables) -> (the variables as float32 NumPy arrays, with None for
        those that are drawn at random; the report). It raises a `UserError` if they do not fit.
    """

    models: tuple[str, ...]
    read: Callable[[str], dict[str, np.ndarray]]
    match: Callable[[Mapping[str, np.ndarray], Any], tuple[Any, Used]]


WEIGHTS: Registry[WeightFormat] = Registry("format of weights", contrib="pretrained")
"""The formats by the ending of the file."""
