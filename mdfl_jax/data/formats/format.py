"""The type of a file format."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.own_files import words


class Format(NamedTuple):
    """A format of the files of a data directory.

    Attributes:
      names: (data directory, names of its entries) -> the names of the data sets in this format.
      files: (data directory, name) -> the files of this data set, which may have been damaged or removed since.
      read: (files, beginning of an error message) -> the arrays, by the names that they have in an npz file.
    """

    names: Callable[[Path, list[str]], set[str]]
    files: Callable[[Path, str], list[Path]]
    read: Callable[[list[Path], str], dict[str, np.ndarray]]


def unreadable(where: str, error: Exception, allowed: str) -> UserError:
    """Return an error about a damaged file, in one line, which the caller raises from the original error."""
    return UserError(f"{where}: cannot be read ({words(error)}); allowed: {allowed}")
