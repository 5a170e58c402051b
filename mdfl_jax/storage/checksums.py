"""The checksums by which damage is noticed: of arrays in files of states, and of the texts of a finished study.

A file of a state is an .npz of named arrays with the type and a checksum of each: checkpoints, and the last states of
runs.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import disk

CHECKSUMS = "checksums"  # the entry of config.json
TEXTS = ("metrics.jsonl", "summary.json")
"""The texts of a finished study beside config.json. Of history.npz, kept models and states, each array has one."""
Arrays = dict[str, np.ndarray]
_DTYPES = "dtypes"  # the array of each file that names the types of the others, and has their checksums


def checksum_of(array: np.ndarray) -> str:
    """Return a checksum of the bytes, the type and the shape of an array: 32 hexadecimal digits."""
    about = f"{np.dtype(array.dtype).name} {array.shape}"
    octets: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)  # hashlib does not know bfloat16 and its like
    return hashlib.blake2b(octets, digest_size=16, key=about.encode()[:64]).hexdigest()


def checksum_of_json(value: Any) -> str:
    """Return a checksum of a JSON value, whatever the order of the keys in its objects: 32 hexadecimal digits."""
    return _of_text(json.dumps(value, sort_keys=True))


def with_checksums(manifest: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the content of config.json with the checksums of the texts that lie in the folder, and of itself.

    Args:
      manifest: The content, of strict JSON's values.
      folder: The folder of a finished study.
    """
    of_texts = {name: _of_text(_text(folder / name)) for name in TEXTS}
    return {**manifest, CHECKSUMS: {"config.json": _of_manifest(manifest), **of_texts}}


def check_texts(manifest: Mapping[str, Any], folder: Path) -> None:
    """Check that the texts of a finished study are those that were written with its config.json.

    Only what has a checksum is checked: a user may remove the entry after a change of their own.

    Args:
      manifest: The content of config.json, as it was read.
      folder: The folder of the study.

    Raises:
      UserError: If a text cannot be read, or if it or config.json itself has another checksum.
    """
    check_manifest(manifest, folder)
    known = known_checksums(manifest)
    for name in TEXTS:
        if name in known and known[name] != _of_text(_text(folder / name)):
            raise _changed(folder / name)


def check_manifest(manifest: Mapping[str, Any], folder: Path) -> None:
    """Check config.json alone, as `check_texts` does with the others.

    Raises:
      UserError: If it has another checksum.
    """
    if known_checksums(manifest).get("config.json", own := _of_manifest(manifest)) != own:
        raise _changed(folder / "config.json")


def known_checksums(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the checksums that config.json has, by the name of the file."""
    found = manifest.get(CHECKSUMS)
    return dict(found) if isinstance(found, dict) else {}


def _changed(path: Path) -> UserError:
    return UserError(
        f"{path}: changed or damaged since the study ended: its checksum is not that of config.json; take it from a "
        f"copy or, if the change is yours, remove the entry {CHECKSUMS!r} of config.json"
    )


def _of_manifest(manifest: Mapping[str, Any]) -> str:
    return checksum_of_json({key: manifest[key] for key in manifest if key != CHECKSUMS})


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")  # with any ends of lines
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def _of_text(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


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
      broken: The text of the error for a file that is absent or damaged.
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
    found = array.view(np.dtype(dtype))
    if checksum != checksum_of(found):
        raise ValueError("the checksum of an array is wrong")
    return found
