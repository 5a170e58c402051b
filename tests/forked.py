"""Commands as processes: forked from a server that has imported everything once, so that each takes no time to begin.

The fork begins where a command has ended its imports, with no backend of JAX started: variables that libraries read
when they are imported are those of the server. It is a process of its own in all else.

`Started` is a command that a test starts. In a shell, or as a worker that a command starts, `PROGRAMS` are files `mdfl`
and `python` that ask the server too: `programs()` is their folder.
"""

import atexit
import base64
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shell import QUICK, ROOT, without_stages

MODULES = ["pytest", "jax", "mdfl_jax.cli.common", "mdfl_jax.study",
           "mdfl_jax.study.memory", "mdfl_jax.study.run", "mdfl_jax.contrib.merge.merge",
           "mdfl_jax.report.page", "mdfl_jax.contrib.comparison.compare", "mdfl_jax.report.tables", "matplotlib.pyplot",
           "sklearn.datasets"]  # fmt: skip  # what the launchers import: not they themselves, as their flags clash
PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
if name != "mdfl":
    if words[:1] != ["-m"] or not (words[1].startswith("launch.") or words[1] == "mdfl_jax.cli.entry"):
        os.execv({python!r}, [{python!r}, *words])
    words = words[2:] if words[1] == "mdfl_jax.cli.entry" else [words[1][len("launch."):], *words[2:]]
    name = "mdfl" if sys.argv[2] == "mdfl_jax.cli.entry" else ""
held = [number for number in (0, 1, 2) if os.path.exists("/proc/self/fd/%d" % number)]
path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
order = {{"words": ["mdfl", *words] if name else words, "held": held, "cwd": os.getcwd(), "path": path, "patch": "",
         "environment": dict(os.environ)}}
with socket.socket(socket.AF_UNIX) as server:
    server.connect({socket!r})
    socket.send_fds(server, [b"+"], held)
    server.sendall(json.dumps(order).encode() + b"\\n")
    answer = server.makefile()
    process = int(answer.readline())
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: os.kill(process, number))
    status = int(answer.readline())
if status < 0:
    signal.signal(-status, signal.SIG_DFL) if status != -signal.SIGKILL else None
    os.kill(os.getpid(), -status)
sys.exit(status)
"""
Patch = Callable[[], None]
Inside = Callable[[], contextlib.AbstractContextManager[Any]]


class Ended(NamedTuple):
    """How a command ended: its status, negative for a signal, and its standard output and error."""

    status: int
    out: str
    err: str

    def said(self) -> str:
        """Return standard error without the lines that tell how far a command is."""
        return without_stages(self.err)


class Started:
    """A command under way: the launcher's name, or mdfl and this name, and its arguments.

    Its standard output and error go to the files `out` and `err` of a folder, or both, and its input, are an open
    `stream`, such as a terminal. A `patch` is called in the process before the command.
    """

    def __init__(
        self,
        folder: Path,
        *words: object,
        devices: int = 2,
        patch: Patch | None = None,
        cwd: Path = ROOT,
        variables: Mapping[str, str] | None = None,
        stream: int | None = None,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.glob("*.err")))
        self.out, self.err = folder / f"{number}.out", folder / f"{number}.err"
        self._status: int | None = None
        order = {"words": [str(word) for word in words], "held": [0, 1, 2], "cwd": str(cwd), "path": sys.path}
        own = {"XLA_FLAGS": QUICK, "JAX_NUM_CPU_DEVICES": str(devices)}
        order |= {"environment": {**os.environ, **own, **(variables or {})}}
        order |= {"patch": base64.b64encode(pickle.dumps(patch)).decode() if patch else ""}
        with contextlib.ExitStack() as stack:
            places = ((Path(os.devnull), "rb"), (self.out, "ab"), (self.err, "ab"))
            streams = [stack.enter_context(path.open(mode)).fileno() for path, mode in places]
            self._server = socket.socket(socket.AF_UNIX)
            self._server.connect(_server())
            socket.send_fds(self._server, [b"+"], streams if stream is None else [stream] * 3)
        self._server.sendall(json.dumps(order).encode() + b"\n")
        self._answer = self._server.makefile()
        self.pid = int(self._answer.readline())

    def wait(self, timeout: float) -> bool:
        """Wait for the end for so many seconds. Return whether it has ended."""
        if self._status is None and select.select([self._server], [], [], max(0.0, timeout))[0]:
            self._status = int(self._answer.readline())
        return self._status is not None

    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return not self.wait(0)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the process, unless it has ended."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def until(self, holds: Callable[[], Any], seconds: float = 300) -> None:
        """Wait until something holds, and fail if the process ends before, or if it takes this many seconds."""
        end = time.monotonic() + seconds
        while not holds():
            assert self.is_alive(), self.ended()
            assert time.monotonic() < end, self.err.read_text(errors="replace")
            time.sleep(0.02)

    def ended(self, timeout: float = 300) -> Ended:
        """Wait for the end. A process that does not end in this many seconds is killed, and the test fails."""
        if hung := not self.wait(timeout):
            self.kill()
            self.wait(60)
        assert self._status is not None
        found = Ended(self._status, *(path.read_text(errors="replace") for path in (self.out, self.err)))
        assert not hung, f"no end after {timeout} s: {found}"
        return found


def signal_at(step: int, number: int) -> None:
    """As the patch of a command, with `functools.partial`: it gets a signal when it goes on to its n-th evaluation."""
    from mdfl_jax.study.runner import Program

    real, steps = Program.advance, iter(range(1, step + 1))

    def advance(*args: Any) -> Any:
        if next(steps, 0) == step:
            os.kill(os.getpid(), number)
        return real(*args)

    Program.advance = advance  # type: ignore[method-assign]


def _answer(command: str, lines: list[list[str]], inside: Inside) -> None:
    """As the patch of a command: answer command lines in its place, print what each of them did, and end."""
    from absl import flags

    from mdfl_jax.cli import commands, common

    module, found = importlib.import_module(commands.module_of(command)), []
    with inside():
        for line in lines:
            flags.FLAGS.unparse_flags()
            for name in flags.FLAGS:
                flags.FLAGS[name].unparse()
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    common.parse_flags([command, *line], module.WORDS)
                    status = common.call(module.main)
                except SystemExit as ended:
                    status = ended.code
            found.append([status, out.getvalue(), without_stages(err.getvalue())])
    print(json.dumps(found))
    sys.exit()


def answers(
    folder: Path, command: str, lines: Iterable[list[str]], cwd: Path, inside: Inside = contextlib.nullcontext
) -> list[Ended]:
    """Run command lines of a launcher one after the other, in one process and within a context. Return how each ended.

    Two launchers that define a flag of the same name cannot be in the process of the tests.
    """
    ended = Started(folder, command, patch=functools.partial(_answer, command, list(lines), inside), cwd=cwd).ended()
    assert not ended.status, ended.err
    return [Ended(*each) for each in json.loads(ended.out)]


def programs() -> Path:
    """Return a folder with `mdfl` and `python`, for the path of a shell: of the commands they ask the server."""
    _server()
    return _folder()


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="mdfl-tests-"))


@functools.cache
def _server() -> str:
    """Start the server, which ends with this process, and return the path of its socket."""
    folder = _folder()
    name = str(folder / "socket")
    for program in ("mdfl", "python"):
        (folder / program).write_text(PROGRAM.format(python=sys.executable, socket=name))
        (folder / program).chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [sys.executable, __file__, name]
    server = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, start_new_session=True)
    atexit.register(lambda: (server.stdin.close(), server.wait()))  # type: ignore[union-attr]
    while not Path(name).exists():
        assert server.poll() is None, "the server of commands has ended"
        time.sleep(0.02)
    return name


def _serve(name: str) -> tuple[dict[str, Any], list[int]]:
    """Serve until the standard input is closed. Return in each command's process, with its order and its streams."""
    for module in MODULES:
        importlib.import_module(module)
    from mdfl_jax.config.resolve import default_config

    default_config()  # which imports the members of all families
    gc.set_threshold(200_000, 20, 50)  # as in conftest.py
    gc.freeze()  # a command does not look at what is there already
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how those that wait for commands have ended
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{name}.part")
        server.listen(64)
        os.rename(f"{name}.part", name)
        while True:
            if sys.stdin in select.select([server, sys.stdin], [], [])[0]:
                os._exit(0)
            connection = server.accept()[0]
            if os.fork() == 0:
                break
            connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, *_ = socket.recv_fds(connection, 1, 3)
    order = json.loads(connection.makefile().readline())
    if process := os.fork():
        for number in streams:  # a pipe ends when the command closes it
            os.close(number)
        connection.sendall(f"{process}\n".encode())
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        with contextlib.suppress(OSError):  # nobody waits any more
            connection.sendall(f"{status}\n".encode())
        os._exit(0)
    connection.close()
    return order, streams


def _become(order: dict[str, Any], streams: list[int]) -> None:
    """Do what a command does, in a process that was just forked."""
    os.setsid()
    for number in range(3):
        os.close(number)
    for given, number in zip(streams, order["held"], strict=True):
        os.dup2(given, number)
        os.close(given)
    for number, stream in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        made = None
        if number in order["held"]:
            by_line = number == 2 or os.isatty(number)
            mode, buffering = "w" if number else "r", 1 if by_line else -1
            made = open(number, mode, buffering, closefd=False)  # noqa: SIM115 - it stays until the process ends
        setattr(sys, stream, made)
        setattr(sys, f"__{stream}__", made)
    import jax

    environment = order["environment"]
    os.environ.clear()
    os.environ |= {**environment, "JAX_PLATFORMS": "cpu"}
    if devices := environment.get("JAX_NUM_CPU_DEVICES"):
        jax.config.update("jax_num_cpu_devices", int(devices))
    fast = environment.get("JAX_DISABLE_MOST_OPTIMIZATIONS", "0") == "1"
    jax.config.update("jax_disable_most_optimizations", fast)
    os.chdir(order["cwd"])
    sys.path[:0] = [order["cwd"], *(entry for entry in order["path"] if entry not in sys.path)]  # as python -m does
    sys.executable = str(Path(sys.argv[1]).parent / "python")  # of the workers that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from mdfl_jax.cli import entry

    words = order["words"]
    sys.argv = words if words[0] == "mdfl" else [str(ROOT / "launch" / f"{words[0]}.py"), *words[1:]]
    if order["patch"]:
        pickle.loads(base64.b64decode(order["patch"]))()
    if words[0] == "mdfl":
        entry.main()
    else:
        entry.start(words[0])


if __name__ == "__main__":
    _become(*_serve(sys.argv[1]))
