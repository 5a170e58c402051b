"""The format of MNIST's and Fashion-MNIST's own files: IDX, plain or compressed by gzip.

The four files are in `<data directory>/<name>`, in its folder `raw`, or in the data directory itself. Some copies have
a dot in the names in place of the second dash, as `train-images.idx3-ubyte`. If they are in the data directory itself,
the data set has the name mnist or fashion_mnist, as the user chooses, since the files of both have the same names.
"""

import gzip
import math
from pathlib import Path
from typing import IO

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.files import while_reading
from mdfl_jax.data.formats import FORMATS, Format
from mdfl_jax.storage.disk import check_size
from mdfl_jax.storage.given import LARGE, open_file

_FILES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
WITHOUT_FOLDER = ("mnist", "fashion_mnist")
BYTES = 0x08  # the code of uint8 in an IDX header
MORE = 2**20  # bytes beyond the size in the header that are read, to say how many there are


def _file(folder: Path, key: str) -> Path:
    """Return the path of a file in a folder: the first that is there of all names, or else the usual compressed one."""
    names = [name + end for end in ("", ".gz") for name in (_FILES[key], _FILES[key].replace("-idx", ".idx"))]
    return next((folder / name for name in names if (folder / name).is_file()), folder / names[-2])


def _folders(directory: Path, name: str) -> list[Path]:
    inside = [directory / name, directory / name / "raw"]
    return [
        folder for folder in (*inside, *([directory] * (name in WITHOUT_FOLDER))) if _file(folder, "x_train").exists()
    ]


def _files(directory: Path, name: str) -> list[Path]:
    """Return the paths of the four files, in the order of `_FILES`."""
    return [_file(folder, key) for folder in _folders(directory, name)[:1] for key in _FILES]


def read_idx(path: Path, where: str) -> np.ndarray:
    """Read an IDX file of uint8.

    Args:
      path: the file.
      where: the beginning of an error message.

    Returns:
      uint8, with the axes that the header of the file says.

    Raises:
      UserError: if the file is missing or cannot be read, is no IDX file of uint8, or has another size than its header
        says.
    """
    if not path.exists():
        plain = path.name.removesuffix(".gz")
        raise UserError(f"{where}: a file is missing in {str(path.parent)!r}; allowed: {plain} or {plain}.gz")
    where = f"{where}, file {str(path)!r}"
    with while_reading(where, "an undamaged IDX file"), open_file(path, LARGE) as file:
        stream = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        shape = _shape(stream, where)
        size = math.prod(shape)
        check_size(size)
        content = stream.read(size + MORE)
    if len(content) != size:
        raise UserError(
            f"{where}: it holds {'at least ' * (len(content) == size + MORE)}{len(content):,} bytes behind its header, "
            f"which says {list(shape)}; allowed: {size:,} bytes"
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def _shape(stream: "gzip.GzipFile | IO[bytes]", where: str) -> tuple[int, ...]:
    """Read the header of an IDX file and return the shape that it says."""
    begin = stream.read(4)
    axes = stream.read(4 * begin[3]) if len(begin) == 4 else b""
    if begin[:3] != bytes([0, 0, BYTES]) or len(begin) < 4 or len(axes) < 4 * begin[3]:
        raise UserError(f"{where}: it begins with {begin.hex(' ') or 'nothing'}; allowed: IDX of uint8, 00 00 08")
    return tuple(int(size) for size in np.frombuffer(axes, ">u4"))


def _read(paths: list[Path], where: str) -> dict[str, np.ndarray]:
    """Read the four files. Raise a `UserError` as `read_idx`, or if a file is missing."""
    return {key: read_idx(path, where) for key, path in zip(_FILES, paths)}


def _names(directory: Path, entries: list[str]) -> set[str]:
    """Return the names of the folders with IDX files, and those of files in the data directory itself."""
    return {name for name in (*entries, *WITHOUT_FOLDER) if _folders(directory, name)}


FORMATS.register("idx", doc="MNIST's own files.")(Format(_names, _files, _read, place=2))
