"""The memory that the machine leaves to this process."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_PROC, _CGROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")
_LIMITS = (".", "memory.max"), ("memory", "memory.limit_in_bytes")  # of control groups, version 2 and version 1


def host_memory() -> int:
    """Returns the bytes that this process may still have: what its control group and ``ulimit -v`` leave of them.

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
    """Yields the files, there or not, that limit this process's control groups and those in which they lie."""
    groups = {""}
    with contextlib.suppress(OSError):
        groups |= {line.rpartition(":")[2].strip("/") for line in _PROC.joinpath("cgroup").read_text().splitlines()}
    for folder, name in _LIMITS:
        for group in map(Path, groups):
            yield from (_CGROUPS / folder / of / name for of in (group, *group.parents))
