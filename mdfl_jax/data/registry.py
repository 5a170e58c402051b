"""The registry of the data sources that need no data directory."""

from collections.abc import Callable

import numpy as np

from mdfl_jax.core.registry import Registry

SOURCES: Registry[Callable[[], dict[str, np.ndarray]]] = Registry("data.name")
"""Sources: name -> function that returns the arrays of a data set, by the names that they have in an npz file.

x_train, y_train, x_test and y_test are needed; docs/data.md lists the others and the allowed types.
"""
