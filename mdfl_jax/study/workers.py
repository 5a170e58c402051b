"""The processes that compute runs of the same folder, on one machine or on several, and which runs each has taken.

A worker has a file in the folder ``workers`` that names its process and the runs that it has taken. It touches the file
every few seconds. A worker whose process has ended takes no more runs, and its runs are free again: on one machine the
system tells this at once, since it gives the lock of a file back when a process ends, however it ends. A worker of
another machine is believed to have ended if its file was not touched for a while; this while is measured by our own
monotonic clock, so that it does not matter what time the two machines believe it is. If two workers compute the same
run all the same, it is a waste and no fault: their files are equal to the bit.
"""

import contextlib
import json
import os
import platform
import re
import secrets
import signal
import threading
import time
import uuid
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from filelock import FileLock, Timeout

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.registry import Registry
from mdfl_jax.storage import disk
from mdfl_jax.storage.study_files import WORKERS

if TYPE_CHECKING:
    from mdfl_jax.study.study import Study

BEAT = 5.0  # seconds after which a worker touches its file
WATCH = 45.0  # seconds for which a worker of another machine may not touch its file
_FILE = re.compile(r"\.?([0-9a-f]{16})\.(lock|json|json\.[0-9a-f]+\.part)")  # the last one is incomplete
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def machine() -> str:
    """Return what tells this machine, since it was started, from all others: processes here share its file locks."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return f"{platform.node()}-{uuid.getnode():x}"


class Worker(NamedTuple):
    """Another process that computes runs.

    Attributes:
      token: The name of its file.
      host, process: The machine and the number of the process.
      runs: The names of the runs that it has taken.
    """

    token: str
    host: str
    process: int
    runs: frozenset[str]

    def __str__(self) -> str:
        return f"process {self.process} of {self.host}"


class Workers:
    """The workers of a folder, with this process as one of them inside of the context manager.

    Args:
      workdir: The folder of a study, which exists.
    """

    def __init__(self, workdir: Path):
        self.workdir, self.folder = workdir, workdir.absolute() / WORKERS
        self.token, self.over = secrets.token_hex(8), threading.Event()
        self._seen: dict[str, tuple[int, float]] = {}  # token -> the time of its file, and our clock when we saw it

    def __enter__(self) -> Self:
        self._alive = FileLock(self.folder / f"{self.token}.lock")
        with disk.writing(self.folder):
            self.folder.mkdir(exist_ok=True)
            self._alive.acquire()
        try:
            self.take(())
        except BaseException:
            self._leave()
            raise
        self._beating = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._beating.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self._beating.join()
        self._leave()

    def _leave(self) -> None:
        self._remove(self.token)
        self._alive.release()
        with contextlib.suppress(OSError):  # another worker has a file there
            self.folder.rmdir()

    def take(self, runs: Collection[str]) -> None:
        """Say that this process computes these runs now, and no others. The caller has locked the workdir.

        Raises:
          DiskError: If this cannot be written.
        """
        about = {"host": platform.node(), "process": os.getpid(), "machine": machine(), "runs": sorted(runs)}
        disk.write_json(self._file(self.token), about)

    def others(self) -> list[Worker]:
        """Return the other workers that are alive. The files of others are removed, incomplete ones included."""
        found = []
        tokens = {match[1] for path in self.folder.glob("*") if (match := _FILE.fullmatch(path.name))}
        for token in sorted(tokens - {self.token}):
            path = self._file(token)
            try:
                about, touched = json.loads(path.read_text()), path.stat().st_mtime_ns
                worker = Worker(token, about["host"], about["process"], frozenset(about["runs"]))
            except (OSError, ValueError, TypeError, KeyError, RecursionError):  # it has just ended, or is damaged
                about, touched, worker = {}, 0, Worker(token, "an unknown machine", 0, frozenset())
            if self._is_alive(token, about, touched):
                found.append(worker)
            else:
                self._remove(token)
        with contextlib.suppress(OSError):  # it is not there, or a worker has a file there
            self.folder.rmdir()
        return found

    def check(self) -> None:
        """Check that the folder is still there.

        Raises:
          UserError: If it was removed or moved.
        """
        if not self._file(self.token).parent.is_dir():
            raise UserError(f"--workdir={self.workdir}: it was removed or moved while this process was writing to it")

    def _is_alive(self, token: str, about: dict[str, Any], touched: int) -> bool:
        if not about or about.get("machine") == machine():
            lock = FileLock(self.folder / f"{token}.lock")
            try:
                with lock.acquire(timeout=0):
                    return False
            except Timeout:
                return True
            except OSError:
                return False
        before, since = self._seen.setdefault(token, (touched, time.monotonic()))
        if touched != before:
            self._seen[token] = (touched, time.monotonic())
            return True
        return time.monotonic() - since < WATCH

    def _beat(self) -> None:
        while not self.over.wait(BEAT):
            with contextlib.suppress(OSError):  # it is tried again
                os.utime(self._file(self.token))

    def _file(self, token: str) -> Path:
        return self.folder / f"{token}.json"

    def _remove(self, token: str) -> None:
        for path in (self._file(token), self.folder / f"{token}.lock", *self.folder.glob(f".{token}.json.*")):
            with contextlib.suppress(OSError):
                path.unlink()


class Crew(Protocol):
    """Workers that one command starts and looks after. It is a context manager around the place where they run.

    Attributes:
      words: What the place is, for the line of the plan.
    """

    words: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def run(self, study: "Study", workdir: Path, log: Callable[[str], None], shows: bool) -> None:
        """Run what is missing of a study, and show the progress if asked."""


CREWS: Registry[Callable[[int, str, Path], Crew]] = Registry("place of workers", contrib="cluster")
"""The crews by the value of --on: name -> (number of workers, text of --cluster, workdir) -> crew."""
WORKER = "MDFL_JAX_WORKER"  # the variable of a worker that a crew has started: how many there are


def as_worker() -> int | None:
    """Return how many workers there are, if a crew has started this process; else None.

    A worker ends as by SIGTERM when its standard input ends, since then nobody waits for it any more.
    """
    if WORKER not in os.environ:
        return None
    many = int(os.environ[WORKER])

    def until_the_end() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=until_the_end, name="pipe", daemon=True).start()
    return many
