"""Files that a user gives: small tables of numbers, arrays, and whatever is wrong with them in one line."""

import contextlib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.own_files import error_words
from mdfl_jax.core.tables import Rows
from mdfl_jax.storage.disk import check_npz
from mdfl_jax.storage.given import LARGE, at_line, open_file


@contextlib.contextmanager
def while_reading(where: str, allowed: str = "", extra: str = "", place: str = "") -> Iterator[None]:
    """Make one line of whatever the readers of a file raise.

    Only what reads the file belongs in this context. Libraries raise errors of many types for damaged bytes, so every
    error there means that the file is damaged, or that a library is missing.

    Args:
      where: the beginning of the line, which names the file.
      allowed: what the file may be.
      extra: the extra of this project that installs the library; "" for a library that is always there.
      place: the file or folder, where ``where`` does not name it.

    Raises:
      UserError: for any error. One that begins with ``where``, or is of a reader with an extra, stays as it is.
    """
    try:
        yield
    except UserError as error:
        raise error if extra or str(error).startswith(where) else UserError(f"{where}: {error}") from None
    except Exception as error:
        if extra and isinstance(error, ImportError):
            raise UserError(
                f"{where}: {error_words(error)}; install the extra: pip install 'mdfl_jax[{extra}]'"
            ) from error
        what = f"cannot be read{place and ' from '}{place} ({error_words(error)})"
        raise UserError(f"{where}: {what}{allowed and '; allowed: '}{allowed}") from error


def whole(text: str) -> int:
    """Read a whole number, also as NumPy writes it: 7.000000000000000000e+00.

    Raises:
      ValueError: for another text, or a number with decimals.
    """
    try:
        return int(text)
    except ValueError:
        if not (number := float(text)).is_integer():
            raise
        return int(number)


def number_rows(
    text: str, kind: Callable[[str], float], allowed: str, may_count: bool = False
) -> list[tuple[int, list[float]]]:
    """Read a table of numbers (`mdfl_jax.core.tables.Rows`). Its header is skipped.

    Args:
      text: the text of its file.
      kind: `whole` or ``float``, which reads a number.
      allowed: what the file may be, for errors.
      may_count: whether the first row may have another length, if it is one number.

    Returns:
      Each row with the number of its line in the file, from 1. All rows have as many numbers.

    Raises:
      UserError: for a text without rows, or for a row with a word or with another length; the message has its line.
    """
    rows = []
    try:
        for line, cells in Rows(text.splitlines(), at_line, may_count=may_count):
            try:
                rows.append((line, [kind(cell) for cell in cells]))
            except ValueError:
                what = f"{'whole ' if kind is whole else ''}numbers with commas or blanks between"
                raise UserError(f"line {line}: {','.join(cells)[:40]!r} is not of {what}") from None
        if not rows:
            raise UserError("it holds no line of numbers")
    except UserError as error:
        raise UserError(f"{error}; allowed: {allowed}") from None
    return rows


def arrays_in(path: str | Path) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file by their names, or the one array of an .npy file, whose name is "".

    Raises:
      UserError: if they do not fit in the memory.
      Exception: whatever `zipfile` and NumPy raise for a damaged file, or for one with objects.
    """
    with open_file(path, LARGE) as file:
        if zipfile.is_zipfile(file):
            check_npz(file)
        file.seek(0)
        loaded = np.load(file, allow_pickle=False)
        return {"": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
