"""Strict JSON and arrays, as a study writes them."""

import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.storage import disk

FAST = 1  # the level of compression
SAMPLE = 2**16  # the numbers from which it is seen whether compression pays


def plain(value: Any) -> Any:
    """Convert a tree for strict JSON: NumPy numbers to Python's, NaN to null, infinities to 'inf' and '-inf'."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def dumps(value: Any, indent: int | None = None) -> str:
    """Return a tree as JSON text, after `plain`."""
    return json.dumps(plain(value), allow_nan=False, indent=indent)


def write_json(path: Path, value: Any) -> None:
    """Write a tree as JSON, as `mdfl_jax.storage.disk.write` does.

    Raises:
      DiskError: If it cannot be written.
    """
    disk.write_text(path, dumps(value, indent=2) + "\n")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as .npz, as `mdfl_jax.storage.disk.write` does.

    Arrays that become much shorter, such as links and places on a grid, are compressed. NumPy reads them alike.

    Raises:
      DiskError: If it cannot be written.
    """
    disk.write(path, lambda part: _write_zip(part, arrays), sum(array.nbytes for array in arrays.values()))


def _write_zip(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with zipfile.ZipFile(path, "w", compresslevel=FAST) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # without the time, so that equal arrays make equal files
            entry.compress_type = zipfile.ZIP_DEFLATED if _shrinks(array) else zipfile.ZIP_STORED
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def _shrinks(array: np.ndarray) -> bool:
    """Tell from the beginning of an array whether its compressed bytes are less than half as many."""
    sample = np.ascontiguousarray(array.reshape(-1)[:SAMPLE]).tobytes()
    return len(sample) > 1000 and len(zlib.compress(sample, FAST)) < len(sample) / 2
