"""Files of named arrays, .npz with the type and a checksum of each array: checkpoints, and the last states of runs."""

import json
from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import disk
from mdfl_jax.storage.checksums import checksum_of

Arrays = dict[str, np.ndarray]
_DTYPES = "dtypes"  # the array of each file that names the types of the others, and has their checksums


def write_state(path: Path, arrays: Arrays) -> None:
    """Write named arrays with their checksums and the names of their types, as .npz does not know those of bfloat16.

    Raises:
      DiskError: If the file cannot be written.
    """
    about = {key: [np.dtype(value.dtype).name, checksum_of(value)] for key, value in arrays.items()}

    def make(part: Path) -> None:
        with part.open("wb") as file:  # NumPy would add .npz to a path
            np.savez(file, **arrays, **{_DTYPES: np.array(json.dumps(about))})  # type: ignore[arg-type]

    disk.write(path, make, sum(array.nbytes for array in arrays.values()))


def read_state(path: Path, broken: str, only: Sequence[str] | None = None) -> Arrays:
    """Read the arrays of a file that `write_state` has written.

    Args:
      path: The file.
      broken: What to tell the user if it is absent or damaged.
      only: The names of the arrays to read; None: all.

    Raises:
      UserError: If it is absent or damaged, or if one of these arrays is not there.
    """
    try:
        with np.load(path) as stored:
            about = json.loads(str(stored[_DTYPES]))
            if only is None and {*stored.files} != {*about, _DTYPES}:
                raise ValueError("another number of arrays than were written")
            return {key: _checked(stored[key], about[key]) for key in (about if only is None else only)}
    except Exception as error:  # whatever the readers make of damaged bytes
        raise UserError(f"{path}: {broken}") from error


def _checked(array: np.ndarray, about: list[str]) -> np.ndarray:
    dtype, checksum = about
    found = array.view(jnp.dtype(dtype))
    if checksum != checksum_of(found):
        raise ValueError("the checksum of an array is wrong")
    return found
