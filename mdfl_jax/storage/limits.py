"""Bounds on what a file unpacks to, so that a small file of somebody else cannot fill the memory of this process."""

import contextlib
import math
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

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


def check_npz(path: str | Path) -> None:
    """Check the sizes of the arrays of an .npz file, before any of them is read.

    Args:
      path: the file.

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
