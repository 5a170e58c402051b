"""Files that a field, a flag or a table names: each is checked here before anything is read of it.

A device, a pipe or a file that the system makes up may have no end, and a pipe may keep a reader waiting. So only a
regular file is opened, and only up to a size. The caller names the field and the path. A Python program may hand over
the content of a file (`held`), which is then read like any other.
"""

import contextlib
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from mdfl_jax.core.errors import UserError, errors_about
from mdfl_jax.core.own_files import import_file
from mdfl_jax.storage.disk import GIB

CODE = GIB // 64  # bytes of a file of code, of flags or of JSON of a study
TABLE = 2 * GIB  # of a text that is read whole
LARGE = 1024 * GIB  # of traces, whose samples are counted, and of arrays, which must fit the memory
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
_OF_THE_SYSTEM = ("/proc/", "/sys/")
GIVEN = "given:"  # the beginning of the names of what a Python program hands over
_HELD: dict[str, bytes] = {}  # the contents of the files that a Python program hands over, by name


@contextlib.contextmanager
def held(name: str, content: bytes) -> Iterator[str]:
    """Make a content known as a file inside the context.

    Args:
      name: what it is, with the ending of such a file: "graph.npy".
      content: the bytes of the file.

    Yields:
      The path for a field. It contains a digest of the content, so that another content is another study.
    """
    path = f"{GIVEN}{hashlib.sha256(content).hexdigest()[:16]}.{name}"
    _HELD[path] = content
    try:
        yield path
    finally:
        _HELD.pop(path, None)


def check_file(path: str | Path, most: int = TABLE) -> None:
    """Check that a path is that of a regular file that is not too large. Nothing is read of it.

    Raises:
      UserError: If it is not. The message says what it is and what is allowed.
    """
    allowed = f"allowed: a regular file of at most {f'{most / GIB:,.0f} GiB' if most >= GIB else f'{most >> 20} MiB'}"
    try:
        found = os.stat(path)
        is_made_up = os.path.realpath(path).startswith(_OF_THE_SYSTEM)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError("there is no such file") from None
    except (OSError, ValueError) as error:
        _refuse(error)
    if not stat.S_ISREG(found.st_mode) or is_made_up:
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "a file of the system")
        raise UserError(f"it is {kind}; {allowed}")
    if found.st_size > most:
        raise UserError(f"it has {found.st_size:,} bytes; {allowed}")


def open_file(path: str | Path, most: int = TABLE) -> io.BufferedReader:
    """Open a file for reading, after `check_file`.

    Raises:
      UserError: As `check_file`, or if the file cannot be opened.
    """
    if (content := _HELD.get(str(path))) is not None:
        return io.BufferedReader(io.BytesIO(content))
    check_file(path, most)
    try:
        return open(path, "rb")
    except OSError as error:
        _refuse(error)


def read_text(path: str | Path, most: int = TABLE) -> str:
    """Read a text in UTF-8 whole, with or without a byte order mark; its line ends stay as they are.

    Raises:
      UserError: As `open_file`, or if the file cannot be read or is no such text.
    """
    try:
        with open_file(path, most) as file:
            return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"it is not text: byte 0x{error.object[error.start]:02x} is not UTF-8") from None
    except OSError as error:
        _refuse(error)


def _refuse(error: OSError | ValueError) -> NoReturn:
    raise UserError(f"it cannot be read ({getattr(error, 'strerror', None) or error})") from None


def import_given(path: str) -> None:
    """Import a Python file that --use or the field `use` names, after `check_file`.

    Raises:
      UserError: As `check_file` and `mdfl_jax.core.own_files.import_file`.
    """
    with errors_about(f"use is {path!r}"):
        check_file(path, CODE)
    import_file(path)


def whole_numbers(field: str, path: str, header: tuple[str, ...], what: str) -> np.ndarray:
    """Read a file of lines of whole numbers, whose first line may be the header: [n, len(header)] Python integers.

    Raises:
      UserError: If the file cannot be read, holds no line, or a line has another form.
    """
    rows = []
    with errors_about(f"{field} {path!r}"):
        for number, line in enumerate(read_text(path).splitlines(), 1):
            row = [cell.strip() for cell in line.split(",")]
            if not line or (number == 1 and tuple(row) == header):
                continue
            try:
                rows.append([int(cell) for cell, _ in zip(row, header, strict=True)])
            except ValueError:
                raise UserError(f"line {number}: {line!r} is not {','.join(header)}") from None
        if not rows:
            raise UserError(f"it holds no {what}")
    return np.array(rows, object)
