"""Keeps two commands, of one machine or of several, from writing to the same workdir at the same time.

The lock is a file in the workdir that names its owner and has a number which the owner raises every few seconds. On one
machine the system tells at once whether the owner is still there: it gives the lock of a file (`flock`) back when a
process ends, however it ends. It does not tell of a process on another machine that shares the workdir. There the lock
is stale if its number stays the same for a while. This while is measured by our own monotonic clock, so that it does
not matter what time the two machines believe it is.
"""

import contextlib
import errno
import json
import os
import platform
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import disk
from mdfl_jax.storage.study_files import LOCK
from mdfl_jax.study.workdir import check_place

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

BEAT = 5.0  # seconds after which the owner raises its number
WATCH = 45.0  # seconds for which the number of a stale lock stays the same
UNNAMED = 1.0  # seconds in which an owner has written its name into the lock that it has made
_POLL = 0.25
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def machine() -> str:
    """Return what tells this machine, since it was started, from all others: processes here share its file locks."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return f"{platform.node()}-{uuid.getnode():x}"


@contextlib.contextmanager
def alone(workdir: Path, log: Callable[[str], None] = print, name: str = LOCK) -> Iterator[None]:
    """Reserve a workdir for this process. What is written there meanwhile is written by this process alone.

    A workdir that does not exist is made. If nothing else is written to it, it is removed again at the end.

    Args:
      workdir: The workdir.
      log: A function that takes a line for the user, if it must be seen whether another machine is at work.
      name: The name of the lock.

    Raises:
      UserError: If another process has reserved it, or if it cannot be written.
    """
    check_place(workdir)
    folder = workdir.absolute()
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    disk.attempt(folder, lambda: folder.mkdir(parents=True, exist_ok=True))
    try:
        with _Lock(workdir, folder / name, log):
            yield
    finally:
        for path in made:  # the innermost first
            with contextlib.suppress(OSError):  # it is not empty
                path.rmdir()


class _Lock:
    """The lock of a workdir, as a context manager."""

    def __init__(self, workdir: Path, path: Path, log: Callable[[str], None]):
        self.workdir, self.path, self.log = workdir, path, log
        self.token, self.beats, self.over = secrets.token_hex(8), 0, threading.Event()

    def __enter__(self) -> None:
        watched = self._watched()
        disk.attempt(self.path, lambda: self._take(watched))
        self.beating = threading.Thread(target=self._beat, name="alone", daemon=True)
        self.beating.start()
        disk.GUARDS.append(self._check)

    def __exit__(self, *error: object) -> None:
        disk.GUARDS.remove(self._check)
        self.over.set()
        self.beating.join()
        with contextlib.suppress(OSError):
            is_own = self._is_own()
            if fcntl is None:  # Windows removes no open file
                os.close(self.file)
            if is_own:
                self.path.unlink()  # while it is locked, so that nobody else has made it his
        if fcntl is not None:
            with contextlib.suppress(OSError):
                os.close(self.file)

    def _watched(self) -> bytes:
        """Return what the lock holds: nothing, or what a process of this machine wrote, or what stays the same.

        Raises:
          UserError: If a process of another machine is seen at work.
        """
        seen = self._read()
        if seen is None:
            return b""
        about = _about(seen)
        if about.get("machine") == machine() and self._tells():
            return seen
        if about:
            self.log(f"--workdir={self.workdir}: {_who(about)} has reserved it; {WATCH:.0f} s show whether it is alive")
        until = time.monotonic() + (WATCH if about else UNNAMED)
        while time.monotonic() < until:
            time.sleep(_POLL)
            now = self._read()
            if now is None:  # it has just ended
                return b""
            if now != seen:
                raise self._refusal(now)
        return seen

    def _take(self, watched: bytes) -> None:
        """Make the lock this process's own, if it still holds what was seen there."""
        while True:
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            try:
                self._lock_file(self.file)
                here = os.fstat(self.file)
                try:
                    if not os.path.samestat(here, self.path.stat()):
                        raise FileNotFoundError
                except FileNotFoundError:  # its owner has just removed it
                    os.close(self.file)
                    continue
                found = os.read(self.file, 10_000)
                if found and found != watched:
                    raise self._refusal(found)
                self._write()
            except BaseException as error:
                if isinstance(error, OSError) and not os.fstat(self.file).st_size:
                    with contextlib.suppress(OSError):
                        self.path.unlink()
                os.close(self.file)
                raise
            return

    def _tells(self) -> bool:
        """Whether the system tells that no process of this machine has the lock, which holds what one wrote.

        Raises:
          UserError: If one has it.
        """
        try:
            with self.path.open("r+b", buffering=0) as file:
                return self._lock_file(file.fileno())
        except FileNotFoundError:
            return True

    def _lock_file(self, file: int) -> bool:
        """Lock the file. Return whether this system and this file system can.

        Raises:
          UserError: If another process has locked it.
        """
        if fcntl is None:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise self._refusal(os.read(file, 10_000)) from None
            return False
        return True

    def _write(self) -> None:
        """Write the owner and the number of beats, always with as many bytes, so that it needs no further room."""
        about = {"host": platform.node(), "process": os.getpid(), "machine": machine(), "token": self.token}
        os.lseek(self.file, 0, os.SEEK_SET)
        content = json.dumps(about | {"beats": f"{self.beats:012}"}).encode()
        if os.write(self.file, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(self.file, len(content))
        with contextlib.suppress(OSError):
            os.fsync(self.file)  # so that other machines see it

    def _beat(self) -> None:
        while not self.over.wait(BEAT):
            with contextlib.suppress(OSError):  # it is tried again
                if not self._is_own():
                    return
                self.beats += 1
                self._write()

    def _is_own(self) -> bool:
        os.lseek(self.file, 0, os.SEEK_SET)
        return _about(os.read(self.file, 10_000)).get("token") == self.token

    def _check(self, path: Path) -> None:
        """Refuse to write to the workdir if another process has it, as it may after this one was halted for long."""
        if not path.absolute().is_relative_to(self.path.parent):
            return
        found = self._read()
        if found is None:
            raise UserError(f"--workdir={self.workdir}: it was removed or moved while this process was writing to it")
        if self.token.encode() not in found:
            raise self._refusal(found)

    def _read(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def _refusal(self, found: bytes) -> UserError:
        return UserError(f"--workdir={self.workdir}: {_who(_about(found))} is writing to it")


def _about(content: bytes) -> dict[str, Any]:
    """Return what a lock says of its owner; {} if it is not complete."""
    try:
        about = json.loads(content)
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}


def _who(about: dict[str, Any]) -> str:
    return f"process {about['process']} of {about['host']}" if {"process", "host"} <= {*about} else "another process"
