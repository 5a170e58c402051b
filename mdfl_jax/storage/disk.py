"""Writes files whole or not at all: bytes, texts, strict JSON and arrays. No JAX is needed.

What cannot be written is one line that names the file, and on a full disk what is missing and what to do.

What a file unpacks to is bounded, so that a small file of somebody else cannot fill the memory of this process.
"""

import contextlib
import errno
import json
import math
import os
import secrets
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from mdfl_jax.core.errors import UserError

_PROC, _CGROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")
_LIMITS = {"": (".", "memory.max"), "memory": ("memory", "memory.limit_in_bytes")}
"""The folder and the file of limits in version 2 of control groups, which names no controller, and in version 1."""
GIB = 2**30
ANYWHERE = 2**20  # so many bytes fit any machine
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def host_memory() -> int:
    """Return the bytes that this process may still have: what its control group and ``ulimit -v`` leave of them.

    A container or a job of a cluster often has less memory than the machine. Beyond it, the system ends the process.
    Where the system does not tell, as on Windows, it is 2^62.
    """
    bounds = [2**62]
    with contextlib.suppress(AttributeError, OSError, ValueError):
        bounds.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _files_of_limits():
        with contextlib.suppress(OSError, ValueError):
            bounds.append(int(file.read_text()))  # the word max is no number
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # not on Windows

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            used = int(_PROC.joinpath("statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            bounds.append(max(limit - used, 0))
    return min(bounds)


def _files_of_limits() -> Iterator[Path]:
    """Yield the files, there or not, that limit this process's groups of memory and those in which they lie.

    Inside a container the roots of the two trees are often all that is seen.
    """
    found = {(folder, "") for folder, _ in _LIMITS.values()}
    with contextlib.suppress(OSError, ValueError):
        for line in _PROC.joinpath("cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            for controller in {*controllers.split(",")} & {*_LIMITS}:
                found.add((_LIMITS[controller][0], group.strip("/")))
    names = dict(_LIMITS.values())
    for folder, group in found:
        if ".." not in Path(group).parts:
            yield from (_CGROUPS / folder / of / names[folder] for of in (Path(group), *Path(group).parents))


def check_size(size: int) -> None:
    """Check that the content of a file fits the memory.

    Args:
      size: its bytes once it is unpacked.

    Raises:
      UserError: if they are more than the memory that this process may have.
    """
    if size > ANYWHERE and size > (there := host_memory()):
        raise UserError(f"it unpacks to {size / GIB:,.1f} GiB; this machine has {there / GIB:,.1f} GiB of memory")


def check_npz(path: str | Path | IO[bytes]) -> None:
    """Check the sizes of the arrays of an .npz file, before any of them is read.

    Args:
      path: the file, or its stream.

    Raises:
      UserError: if they do not fit, or if the header of an array says another size than the archive.
      Exception: whatever `zipfile` and NumPy raise for a damaged file.
    """
    with zipfile.ZipFile(path) as archive:
        sizes = [entry.file_size for entry in archive.infolist()]
        check_size(sum(sizes))
        for entry in archive.infolist():
            with archive.open(entry) as stream:
                read_header = _HEADERS.get(np.lib.format.read_magic(stream))
                if read_header is None:
                    continue
                shape, _, dtype = read_header(stream)
                needed = stream.tell() + math.prod(shape) * dtype.itemsize
                if needed != entry.file_size and not dtype.hasobject:  # objects are refused where they are read
                    raise UserError(
                        f"the header of {entry.filename} says {list(shape)} {dtype}, {needed:,} bytes with the header; "
                        f"the archive holds {entry.file_size:,}"
                    )


FULL = (errno.ENOSPC, errno.EDQUOT)
FAILED = (*FULL, errno.EROFS, errno.EIO, errno.EFBIG)  # what a file system may say at any time
PART = ".part"  # the end of the name of a file that is not complete yet (`is_part`)
_MIB = 2**20


class DiskError(UserError):
    """A file could not be written. What was written before stays as it was."""


@contextlib.contextmanager
def writing(path: Path, needs: int = 0) -> Iterator[None]:
    """Name the path that is written inside this context manager, if it cannot be.

    Args:
      path: The file or folder.
      needs: About how many bytes are written; 0: unknown.

    Raises:
      DiskError: In place of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise DiskError(_line(path, error, needs)) from error


def write(path: Path, make: Callable[[Path], Any], needs: int = 0) -> None:
    """Write a file through another one beside it, so that a reader never sees an incomplete file.

    The content is on the disk before the file has its name, so that a loss of power leaves no damaged file. The name
    of the other file is random, so that several processes may write the same file, and no link is followed: a link in
    the place of the file is replaced, and its target stays as it was.

    Args:
      path: The file. Its folder is made if it is absent.
      make: A function that writes the path that it is given.
      needs: About how many bytes it writes; 0: unknown.

    Raises:
      DiskError: If it cannot be written. Nothing of it stays, and an earlier file stays as it was.
    """
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}{PART}")
    with writing(path, needs):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            make(part)
            with part.open("rb") as file:
                os.fsync(file)
            part.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise


def is_part(path: Path) -> bool:
    """Tell whether a file is one that `write` did not complete, since its process was killed."""
    return path.name.startswith(".") and path.name.endswith(PART)


def remove_parts(folder: Path) -> None:
    """Remove the files of a folder that killed processes have left incomplete. Nobody may write to it meanwhile."""
    for path in filter(is_part, folder.glob(".*")):
        path.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes, as `write` does."""
    write(path, lambda part: part.write_bytes(content), len(content))


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, with its line ends as they are, as `write` does.

    A path in the text may hold bytes that the locale could not decode (`os.fsdecode`). They are written as they are if
    they are UTF-8, whatever the locale says.
    """
    write_bytes(path, text.encode(errors="surrogateescape").decode(errors="replace").encode())


class Appended:
    """A file to which whole pieces are appended: what is written of a piece that does not fit is taken away again.

    Several processes may append to one file. No link is followed.

    Args:
      path: The file. Its folder is made if it is absent.
      anew: Whether the file is emptied first.

    Raises:
      DiskError: If it cannot be written.
    """

    def __init__(self, path: Path, anew: bool = True):
        self.path = path
        how = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | (os.O_TRUNC if anew else 0)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():
                path.unlink()
            self._file = os.open(path, how, 0o666)

    def write(self, content: bytes) -> None:
        """Append bytes.

        Raises:
          DiskError: If they cannot be written.
        """
        written = 0
        with writing(self.path, len(content)):
            try:
                while written < len(content):
                    written += os.write(self._file, content[written:])
            except BaseException:
                with contextlib.suppress(OSError):
                    end = os.lseek(self._file, 0, os.SEEK_CUR)  # of what this process has written
                    if written and end == os.fstat(self._file).st_size:
                        os.ftruncate(self._file, end - written)
                raise

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):  # nothing is buffered
            os.close(self._file)


def _line(path: Path, error: OSError, needs: int) -> str:
    """Return the line that names the file and what is missing."""
    why = (error.strerror or str(error)).lower()
    if error.errno in FULL:
        why = "the quota is used up" if error.errno == errno.EDQUOT else "the disk is full"
        wanted = f"about {needs / _MIB:.2f} MiB needed, " if needs else ""
        why += f" ({wanted}{_free(path)} free); make room and run the same command again"
    return f"{path} cannot be written: {why}"


def _free(path: Path) -> str:
    """Return the free space of the disk on which a path lies, in words."""
    folder = path
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        found = os.statvfs(folder)
    except (OSError, AttributeError):  # Windows has no statvfs
        return "unknown"
    files = "no further file" if found.f_files and not found.f_favail else ""
    return files or f"{found.f_bavail * found.f_frsize / _MIB:.2f} MiB"


FAST = 1  # the level of compression
SAMPLE = 2**16  # numbers at the beginning of an array that decide whether it is compressed


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
    write_text(path, dumps(value, indent=2) + "\n")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], needs: int = 0) -> None:
    """Write arrays as .npz, as `mdfl_jax.storage.disk.write` does.

    Arrays that become much shorter, such as links and places on a grid, are compressed. NumPy reads them alike.

    Args:
      path: The file.
      arrays: The arrays by name. Each is asked for once.
      needs: About how many bytes they have; 0: unknown.

    Raises:
      DiskError: If it cannot be written.
    """
    write(path, lambda part: _write_zip(part, arrays), needs)


def _write_zip(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with zipfile.ZipFile(path, "w", compresslevel=FAST) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # without the time, so that equal arrays make equal files
            entry.compress_type = zipfile.ZIP_DEFLATED if shrinks(array) else zipfile.ZIP_STORED
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def shrinks(array: np.ndarray) -> bool:
    """Tell from the beginning of an array whether its compressed bytes are less than half as many."""
    sample = np.ascontiguousarray(array.reshape(-1)[:SAMPLE]).tobytes()
    return len(sample) > 1000 and len(zlib.compress(sample, FAST)) < len(sample) / 2
