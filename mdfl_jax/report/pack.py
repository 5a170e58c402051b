"""Packs the data of a page: JSON in which NumPy arrays are compressed, for `unpack` of assets/core.js."""

import base64
import json
import math
import zlib
from typing import Any

import numpy as np

LEVELS, MISSING = 65_534, 65_535  # of numbers stored in 2 bytes: the largest one, and what stands for NaN
_TYPES = {"f8": "f4", "i8": "i4", "u8": "u4", "b1": "u1", "f2": "f4"}  # JavaScript has typed arrays of the others


def packed(array: np.ndarray) -> dict[str, Any]:
    """Return an array as {"$": type, "shape": [...], "data": base64 of its compressed bytes, little-endian}.

    Numbers of 8 bytes are stored in 4, since a reader sees at most six digits of them.
    """
    kind = array.dtype.str[1:]
    stored = np.ascontiguousarray(array, np.dtype("<" + _TYPES.get(kind, kind)))
    data = base64.b64encode(zlib.compress(stored.tobytes(), 6)).decode("ascii")
    return {"$": stored.dtype.str[1:], "shape": list(array.shape), "data": data}


def dumps(tree: Any) -> str:
    """Return a tree as JSON text that is safe inside a <script> element: no text of a study can end the element.

    >>> dumps({"name": "</script>", "lowest": float("-inf")})
    '{"name":"\\\\u003c/script>","lowest":null}'
    """
    return json.dumps(_plain(tree), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return packed(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): _plain(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
