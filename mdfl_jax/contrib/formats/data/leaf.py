"""The format of LEAF (Caldas et al. 2018): `<name>/train/*.json` and `<name>/test/*.json` in the data directory.

The two folders may also lie in `<name>/data`, as LEAF's scripts make them. Each file has the samples of some users:
`{"users": [...], "num_samples": [...], "user_data": {user: {"x": [...], "y": [...]}}}`.

- Users are the natural owners, in alphabetic order.
- Samples are numbers, or texts of one length, which are sequences of characters: tokens in the order of the characters.
- Whole numbers (also as 3.0) and texts are labels, texts in alphabetic order. Other numbers are a regression.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbering import numbering
from mdfl_jax.core.tables import is_number
from mdfl_jax.data.files import while_reading
from mdfl_jax.data.formats import FORMATS, Format
from mdfl_jax.storage.given import read_text

_SPLITS = ("train", "test")
PARTS = ("users", "num_samples", "user_data")
_FILE_NAME = re.compile(r".+\.[A-Za-z]{3,4}")


def _folder(directory: Path, name: str) -> Path | None:
    """Return the folder in which the folders train and test with files of JSON lie; None if there is none."""
    for folder in (directory / name, directory / name / "data"):
        if all(any((folder / split).glob("*.json")) for split in _SPLITS):
            return folder
    return None


def _files(directory: Path, name: str) -> list[Path]:
    """Return the files of both splits, in the order of their names."""
    folder = _folder(directory, name)
    return [] if folder is None else [path for split in _SPLITS for path in sorted((folder / split).glob("*.json"))]


def _names(directory: Path, entries: list[str]) -> set[str]:
    """Return the names of the folders that hold such files."""
    return {name for name in entries if _folder(directory, name) is not None}


def _read(paths: list[Path], where: str) -> dict[str, Any]:
    """Read all files.

    Returns:
      x_train, y_train, x_test, y_test, client, client_test, and ``about``, a line that says what has been read.

    Raises:
      UserError: for a damaged file, numbers of samples that contradict each other, a user in two files of a split,
        samples of unequal sizes, or texts that are no sequences.
    """
    samples: dict[str, tuple[list[Any], list[Any], list[str]]] = {split: ([], [], []) for split in _SPLITS}
    for path in paths:
        x, y, owner = samples[path.parent.name]
        said, seen = f"{where}, file {'/'.join(path.parts[-2:])!r}", set(owner)
        for user, of_user in _users(path, said).items():
            if user in seen:
                raise UserError(f"{said}: user {user!r} is in another file of the folder {path.parent.name!r} too")
            x += of_user["x"]
            y += of_user["y"]
            owner += [user] * len(of_user["y"])
    count = len(samples["train"][0])
    x, y, owner = ([of for split in _SPLITS for of in samples[split][part]] for part in range(3))
    if not 0 < count < len(x):
        raise UserError(f"{where}: {count} training and {len(x) - count} test samples; allowed: one of each at least")
    found = {"x": _samples(x, where), "y": _targets(y, where), "client": np.unique(owner, return_inverse=True)[1]}
    users = [len(set(owner[:count])), len(set(owner[count:])), len(set(owner))]
    about = f"the owners are {users[2]} users, {users[0]} with training and {users[1]} with test samples"
    if x and isinstance(x[0], str):
        about += f"; samples are texts of {len(x[0])} characters, {found['x'].max() + 1} different ones"
    elif found["x"].dtype.kind == "i" and found["x"].ndim == 2:
        about += f"; samples are sequences of {found['x'].shape[1]} tokens, since their numbers are whole"
    if isinstance(y[0], str):
        about += f"; {numbering('labels', sorted(set(y)))}"
    arrays = {"client": found["client"][:count], "client_test": found["client"][count:], "about": about}
    for axis in ("x", "y"):
        arrays |= {f"{axis}_train": found[axis][:count], f"{axis}_test": found[axis][count:]}
    return arrays


def _users(path: Path, where: str) -> dict[str, Any]:
    """Return what a file holds of each user, after a check of its parts."""
    with while_reading(where, "a file of JSON as LEAF writes it"):
        content = json.loads(read_text(path))
        if not isinstance(content, dict) or not set(PARTS) <= set(content):
            raise UserError(f"{where}: it has not the parts {', '.join(PARTS)}")
        users, counts, data = [*map(str, content["users"])], content["num_samples"], content["user_data"]
        if sorted(users) != sorted(data) or len(counts) != len(users):
            raise UserError(f"{where}: users, num_samples and user_data are not of the same users")
        for user, count in zip(users, counts):
            sizes = len(data[user]["x"]), len(data[user]["y"])
            if sizes != (count, count):
                raise UserError(f"{where}: user {user!r} has {sizes[0]} x and {sizes[1]} y; num_samples is {count}")
    return data


def _samples(x: list[Any], where: str) -> np.ndarray:
    """Return samples as an array of numbers, or texts as tokens [n, T]."""
    if not all(isinstance(sample, str) for sample in x):
        return _array(x, f"{where}: x")
    if len(lengths := {len(text) for text in x}) > 1 or 0 in lengths:
        raise UserError(f"{where}: x has texts of {min(lengths)} to {max(lengths)} characters; allowed: one length")
    if all(_FILE_NAME.fullmatch(text) or is_number(text) for text in x):
        raise UserError(f"{where}: x has {x[0]!r}, a number or file as a text; allowed: numbers, or texts to be learnt")
    characters = np.array(x).view(np.uint32).reshape(len(x), -1)
    return np.unique(characters, return_inverse=True)[1].reshape(characters.shape)


def _targets(y: list[Any], where: str) -> np.ndarray:
    """Return labels as whole numbers, and the targets of a regression as floats."""
    if all(isinstance(label, str) for label in y):
        return np.unique(y, return_inverse=True)[1]
    array = _array(y, f"{where}: y")
    is_whole = array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.round(array)).all()
    return array.astype(np.int64) if is_whole and (np.abs(array) < 2**31).all() else array


def _array(values: list[Any], what: str) -> np.ndarray:
    """Return lists of numbers as an array."""
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        array = np.array([None])
    if array.dtype.kind not in "iufb":
        raise UserError(f"{what} has lists of unequal lengths, texts or nulls; allowed: numbers of one shape for all")
    return array


FORMATS.register("leaf", doc="LEAF's folders of JSON, a user an owner.")(Format(_names, _files, _read, place=3))
