"""Files of named arrays with a header, in the format safetensors: records of runs, their states, and checkpoints.

Any reader of safetensors can open such a file. Its metadata have one key, "mdfl_jax", a JSON text: the kind of the
file, its header, the type and a checksum of each array, and a checksum of this text. So damage to any number is
noticed, and an array cannot be taken for that of another run. No objects are stored, and a file takes no more memory
than its own size and what its header declares, which is checked before anything is unpacked. No JAX is needed.
"""

import contextlib
import hashlib
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import disk
from mdfl_jax.storage.disk import check_size
from mdfl_jax.storage.given import LARGE, check_file

Arrays = dict[str, np.ndarray]
KEY = "mdfl_jax"  # of the metadata
SUFFIX = ".safetensors"
_KIND, _ARRAYS = "format", "arrays"
_SEALED = '{{"checksum": "{checksum}", '  # the beginning of the text, whose checksum is that of the rest


def checksum_of(array: np.ndarray) -> str:
    """Return a checksum of the bytes, the type and the shape of an array: 32 hexadecimal digits."""
    about = f"{np.dtype(array.dtype).name} {array.shape}"
    octets: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)  # hashlib does not know bfloat16 and its like
    return hashlib.blake2b(octets, digest_size=16, key=about.encode()[:64]).hexdigest()


def _checksum_of_text(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _encode(array: np.ndarray, compress: bool) -> tuple[np.ndarray, list[Any]]:
    """Return an array as it is stored, and what the header says of it: type, shape, checksum, whether it is deflated.

    A type that the format does not know is stored as bytes, and so is an array that becomes much shorter.
    """
    array = np.require(array, array.dtype.newbyteorder("="), "C")
    deflates = compress and disk.shrinks(array)
    about = [np.dtype(array.dtype).name, list(array.shape), checksum_of(array), deflates]
    if deflates:
        return np.frombuffer(zlib.compress(array.tobytes(), disk.FAST), np.uint8), about
    return (array if array.dtype.kind in "biuf" else array.reshape(-1).view(np.uint8)), about


def _decode(name: str, stored: np.ndarray, about: list[Any]) -> np.ndarray:
    """Return an array as it was before `_encode`, after a check of its size and its checksum."""
    dtype, shape, checksum, deflated = np.dtype(about[0]), tuple(map(int, about[1])), about[2], about[3]
    size = math.prod(shape) * dtype.itemsize
    if deflated:
        check_size(size)
        stored = np.frombuffer(zlib.decompressobj().decompress(stored.tobytes(), size + 1), np.uint8)
    if stored.nbytes != size:
        raise ValueError(f"the array {name!r} has another size than its header says")
    found = stored.reshape(-1).view(dtype).reshape(shape)
    if checksum != checksum_of(found):
        raise ValueError(f"the checksum of the array {name!r} is wrong")
    return found


def write(path: Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], compress: bool) -> None:
    """Write a file whole or not at all.

    Args:
      path: The file. Its folder is made if it is absent.
      kind: What the file holds, with the number of the format, such as "run 1".
      header: Values of JSON by name.
      arrays: The arrays by name.
      compress: Whether an array is deflated that becomes less than half as long.

    Raises:
      DiskError: If the file cannot be written.
    """
    encoded = {name: _encode(array, compress) for name, array in arrays.items()}
    rest = json.dumps({_KIND: kind, **header, _ARRAYS: {name: of for name, (_, of) in encoded.items()}})[1:]
    text = _SEALED.format(checksum=_checksum_of_text(rest)) + rest
    disk.write_bytes(path, save({name: stored for name, (stored, _) in encoded.items()}, {KEY: text}))


def is_of_kind(path: str | Path, kind: str) -> bool:
    """Tell whether a file is of a kind, from its metadata alone."""
    try:
        check_file(path, LARGE)
        with safe_open(path, framework="numpy") as file:
            return _parse(file).get(_KIND) == kind
    except (OSError, SafetensorError, ValueError):  # a UserError is a ValueError
        return False


def _parse(file: Any) -> dict[str, Any]:
    """Return the text in the metadata of an open file, after a check of its checksum."""
    text = (file.metadata() or {}).get(KEY, "")
    begins = len(_SEALED.format(checksum="")) + 32
    if text[:begins] != _SEALED.format(checksum=_checksum_of_text(text[begins:])):
        raise ValueError("its header is none of this program, or its checksum is wrong")
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("its header is nested too deeply") from error
    return found


def _header(kind: str, file: Any) -> dict[str, Any]:
    """Return what the metadata of an open file say, after all checks."""
    about = _parse(file)
    if about.get(_KIND) != kind:
        raise ValueError(f"its format is {about.get(_KIND)!r}, and {kind!r} is needed")
    if set(about[_ARRAYS]) != set(file.keys()):
        raise ValueError("it has other arrays than its header says")
    return about


def read(path: Path, kind: str, only: Iterable[str] | None = None) -> tuple[dict[str, Any], Arrays]:
    """Read the header and the arrays of a file.

    Args:
      path: The file.
      kind: What the file must hold.
      only: The names of the arrays to read, if they are there; None: all.

    Returns:
      (header, arrays by name). The header has the entry "arrays" too: type, shape and checksum of each.

    Raises:
      UserError: If the file is absent, damaged or of another kind. The error names the file.
    """
    with _one_line(path), safe_open(path, framework="numpy") as file:
        header = _header(kind, file)
        about = header[_ARRAYS]
        names = about if only is None else [name for name in only if name in about]
        return header, {name: _decode(name, file.get_tensor(name), about[name]) for name in names}


def read_more(path: Path, header: Mapping[str, Any], names: Iterable[str]) -> Arrays:
    """Read some arrays of a file, from the header that `read` has returned and that is not read again.

    Raises:
      UserError: If the file is absent or damaged, or if these are not the arrays that the header is of.
    """
    with _one_line(path), safe_open(path, framework="numpy") as file:
        return {name: _decode(name, file.get_tensor(name), header[_ARRAYS][name]) for name in names}


@contextlib.contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Turn whatever the readers raise into one line that names the file."""
    try:
        check_file(path, LARGE)
        yield
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except Exception as error:  # whatever the readers make of damaged bytes
        said = " ".join(str(error).split())
        raise UserError(f"{path}: the file is damaged: {said}") from None


def shapes_in(header: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array, from the header that `read` returns."""
    return {name: tuple(about[1]) for name, about in header[_ARRAYS].items()}


def checksums_in(header: Mapping[str, Any]) -> dict[str, str]:
    """Return the checksum of each array, from the header that `read` returns."""
    return {name: about[2] for name, about in header[_ARRAYS].items()}
