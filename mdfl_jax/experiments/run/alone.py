"""Keeps two commands of one machine from writing to the same workdir at the same time."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mdfl_jax.errors import UserError

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def alone(workdir: Path) -> Iterator[None]:
    """Reserves a workdir for this process.

    The lock is a file in the folder for temporary files, so that nothing is written to the workdir before it is known
    that the study may be. The system gives the lock back when the process ends, however it ends. A process on another
    machine that shares the workdir is not noticed. On Windows nothing is reserved.

    Args:
      workdir: The workdir, which need not exist.

    Raises:
      UserError: If another process of this machine has reserved it.
    """
    if fcntl is None:
        yield
        return
    name = hashlib.sha256(str(workdir.resolve()).encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"mdfl_jax-{os.getuid()}-{name}.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise UserError(f"--workdir={workdir}: process {file.read().strip()} is writing to it") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield  # the file stays: without it, a process that has just opened it would reserve a file that nobody finds
