"""Files that a field, a flag or a table names: each is checked here before anything is read of it.

A device, a pipe or a file that the system makes up may have no end, and a pipe may keep a reader waiting. So only a
regular file is opened, and only up to a size. The caller names the field and the path. A Python program may hand over
the content of a file (`held_file`), which is then read like any other.
"""

import codecs
import contextlib
import hashlib
import io
import os
import re
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from mdfl_jax.core.errors import UserError, errors_about
from mdfl_jax.core.own_files import import_file
from mdfl_jax.core.tables import Rows
from mdfl_jax.storage.disk import GIB

CODE = GIB // 64  # bytes of a file of code, of flags or of JSON of a study
_TABLE = 2 * GIB  # of a text that is read whole
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
_USERS: Counter[str] = Counter()  # the contexts in which a name is known: runs in other threads, runs within a run
_LOCK = threading.RLock()  # of `_USERS`
_CONTROLS = re.compile("[\0-\b\x0e-\x1f\x7f]")  # that are in no text
_UNDECODED = re.compile("[\udc80-\udcff]")  # the bytes that are not UTF-8, as surrogateescape has them
LATIN = "read as Latin-1, since it is not UTF-8"


@contextlib.contextmanager
def keep_known(name: str, add: Callable[[], object], remove: Callable[[], object]) -> Iterator[str]:
    """Keep a name known inside the context, and as long as any other context of the same name lasts.

    Args:
      name: the name, which contains a digest of what it stands for.
      add: a function that makes the name known.
      remove: a function that makes it unknown again.

    Yields:
      The name.
    """
    with _LOCK:
        _USERS[name] += 1
        if _USERS[name] == 1:
            add()
    try:
        yield name
    finally:
        with _LOCK:
            _USERS[name] -= 1
            if not _USERS[name]:
                remove()


@contextlib.contextmanager
def held_file(name: str, content: bytes) -> Iterator[str]:
    """Make a content known as a file inside the context.

    Args:
      name: what it is, with the ending of such a file: "graph.npy".
      content: the bytes of the file.

    Yields:
      The path for a field. It contains a digest of the content, so that another content is another study.
    """
    path = f"{GIVEN}{hashlib.sha256(content).hexdigest()[:16]}.{name}"
    with keep_known(path, lambda: _HELD.update({path: content}), lambda: _HELD.pop(path)):
        yield path


def check_file(path: str | Path, most: int = _TABLE) -> None:
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


def open_file(path: str | Path, most: int = _TABLE) -> io.BufferedReader:
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


def decoded_start(begin: bytes) -> str:
    """Decode the beginning of a file, which may end within a character, to see of what kind it is."""
    return begin.decode(encoding_of(begin), errors="replace")


def encoding_of(begin: bytes) -> str:
    """Return the encoding that the first bytes of a text say: UTF-16 with its mark, as Excel saves it, or UTF-8."""
    return "utf-16" if begin[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def lines_in(stream: IO[bytes], notes: list[str], longest: int = -1) -> Iterator[str]:
    """Yield the lines of a text in UTF-8, in UTF-16 with a byte order mark, or else in Latin-1.

    Args:
      stream: the bytes, at their beginning; a stream with `peek`.
      notes: gets a line if the text is in Latin-1.
      longest: characters of the longest part of a line that is yielded; -1: a line is one part.

    Raises:
      UnicodeDecodeError: for bytes that are no text.
    """
    encoding = encoding_of(stream.peek(2))  # type: ignore[attr-defined]
    text = io.TextIOWrapper(stream, encoding, errors="strict" if encoding == "utf-16" else "surrogateescape")
    while line := text.readline(longest):
        if not line.isascii() and _UNDECODED.search(line):
            line = _as_latin(line)
            notes += [LATIN] * (LATIN not in notes)
        yield line


def _as_latin(line: str) -> str:
    """Return a line whose bytes that are not UTF-8 are characters of Latin-1, with those that Windows adds to it."""
    first = _UNDECODED.search(line)
    assert first
    if _CONTROLS.search(line):
        raise UnicodeDecodeError("utf-8", bytes([ord(first[0]) - 0xDC00]), 0, 1, "no text")
    return _UNDECODED.sub(lambda found: bytes([ord(found[0]) - 0xDC00]).decode("cp1252"), line)


def read_text(path: str | Path, most: int = _TABLE, any_encoding: bool = False) -> str:
    """Read a text whole: UTF-8 with or without a byte order mark, with its line ends, or one of `lines_in`.

    Raises:
      UserError: As `open_file`, or if the file cannot be read or is no such text.
    """
    try:
        with open_file(path, most) as file:
            return "".join(lines_in(file, [])) if any_encoding else file.read().decode("utf-8-sig")
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
    """Read a table of whole numbers, in the order of ``header`` or with a header: [n, len(header)] Python integers.

    Raises:
      UserError: If the file cannot be read, holds no line, or a line has another form.
    """
    found = []
    with errors_about(f"{field} {path!r}"):
        rows = Rows(read_text(path, any_encoding=True).splitlines(), at_line)
        names = [name.lower() for name in rows.header] or list(header)
        if missing := [name for name in header if name not in names]:
            raise UserError(f"columns {','.join(names)}; {missing[0]} is missing: they must be {','.join(header)}")
        for line, row in rows:
            try:
                cells = dict(zip(names, row, strict=True))
                found.append([int(cells[name]) for name in header])
            except ValueError:
                raise UserError(f"line {line}: {','.join(row)!r} is not {','.join(header)}") from None
        if not found:
            raise UserError(f"it holds no {what}")
    return np.array(found, object)


def at_line(text: str, line: int) -> NoReturn:
    """Raise a `UserError` about a line of a file; 0: about all of it."""
    raise UserError(f"line {line}: {text}" if line else text)
