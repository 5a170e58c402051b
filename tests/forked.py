"""Commands as processes that are started by the hundred: forked from a server that has imported everything once.

The fork begins where a command has ended its imports, with no backend of JAX started, so that variables which libraries
read when they are imported are those of the server. It is a process of its own in all else: SIGKILL ends it.
"""

import functools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shell import ROOT, without_stages

MODULES = ["pytest", "jax", "mdfl_jax.cli.common", "mdfl_jax.study",
           "mdfl_jax.study.ahead.memory", "mdfl_jax.study.run", "mdfl_jax.study.merge",
           "mdfl_jax.report.page", "mdfl_jax.report.compare", "mdfl_jax.report.tables", "matplotlib.pyplot",
           "sklearn.datasets"]  # fmt: skip  # what the launchers import: not they themselves, as their flags clash
Patch = Callable[[], None]


class Ended(NamedTuple):
    """How a command ended: its status, negative for a signal, and its standard output and error."""

    status: int
    out: str
    err: str

    def said(self) -> str:
        """Returns standard error without the lines that tell how far a command is."""
        return without_stages(self.err)


class Started:
    """A command under way.

    Args:
      folder: Where its standard output and error go.
      words: The name of the launcher, or mdfl and this name in one word, and its arguments.
      devices: The number of host devices.
      patch: What to do in the process before the command.
      cwd: The folder in which it runs.
      variables: What its environment has beside or in place of that of the tests.
    """

    def __init__(
        self,
        folder: Path,
        *words: object,
        devices: int = 2,
        patch: Patch | None = None,
        cwd: Path = ROOT,
        variables: Mapping[str, str] | None = None,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.glob("*.err")))
        self.out, self.err = folder / f"{number}.out", folder / f"{number}.err"
        self.err.touch()
        streams, place = (str(self.out), str(self.err)), (str(cwd), {**os.environ, **(variables or {})})
        order = ([str(word) for word in words], *streams, devices, patch, *place)
        self.process = _server().Process(target=_command, args=order)
        self.process.start()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the process, unless it has ended."""
        if self.process.is_alive():
            os.kill(self.process.pid, number)  # type: ignore[arg-type]

    def ended(self, timeout: float = 120) -> Ended:
        """Waits for the end. A process that does not end in this many seconds is killed, and the test fails."""
        self.process.join(timeout)
        if hung := self.process.is_alive():
            self.process.kill()
            self.process.join()
        found = Ended(self.process.exitcode, *(path.read_text(errors="replace") for path in (self.out, self.err)))
        assert not hung, f"no end after {timeout} s: {found}"
        return found


@functools.cache
def _server() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(MODULES)
    return context


def _command(
    words: list[str], out: str, err: str, devices: int, patch: Patch | None, cwd: str, variables: dict[str, str]
) -> None:
    """Becomes the command, in a process that was just forked."""
    for path, number in ((os.devnull, 0), (out, 1), (err, 2)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    import jax

    os.environ |= {**variables, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"}
    jax.config.update("jax_num_cpu_devices", devices)
    os.chdir(cwd)
    sys.path.insert(0, cwd)  # as python -m does
    from mdfl_jax.cli import entry

    name = words[0].removeprefix("mdfl ")
    sys.argv = [words[0] if name != words[0] else str(ROOT / "launch" / f"{name}.py"), *words[1:]]
    if patch:
        patch()
    entry.start(name)
