"""The memory that the machine leaves to this process."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_PROC, _CGROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")
_LIMITS = {"": (".", "memory.max"), "memory": ("memory", "memory.limit_in_bytes")}
"""The folder and the file of limits in version 2 of control groups, which names no controller, and in version 1."""


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
