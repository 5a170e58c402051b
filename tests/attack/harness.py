"""Commands that are killed at any moment, and what of their files is compared."""

import builtins
import functools
import io
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from forked import Ended, Started
from studies import without_seconds

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import array_files, model_files
from mdfl_jax.storage.study_files import LOCK, STATE_SUFFIX

KILLED = -signal.SIGKILL
STUDY = """
from mdfl_jax.config import default_config

def get_config():
    config = default_config()
    config.name = "faults"
    config.sweep, config.baseline = "network.mobility=static,dcm", "network.mobility=static"
    config.seeds, config.rounds, config.eval_every, config.target = 2, 4, 2, 0.3
    config.save = "final"
    config.data.limit_train, config.data.limit_test, config.data.partition = 120, 60, "iid"
    config.model.name = "linear"
    config.algorithm.momentum, config.algorithm.batch_size = 0.9, 4
    config.network.num_clients, config.network.num_mobile, config.network.grid_size = 6, 2, 5
    config.engine.runs_per_batch, config.engine.checkpoint_minutes = 2, 1e-9
    return config
"""
"""Two batches of two runs each, whose states are saved after each evaluation."""


SMALL = ("--config.seeds=1", "--config.engine.runs_per_batch=1")
GROWN = ("--config.seeds=2", "--config.rounds=6", "--config.engine.runs_per_batch=1")


def sweep(study: Path, *flags: str) -> Callable[[Path], tuple[object, ...]]:
    """Return a function that makes the words of `mdfl sweep` from the workdir."""
    return lambda folder: ("sweep", f"--config={study}", f"--workdir={folder}", "--noreport", *flags)


def write_calls(folder: Path, told: Path, die_at: int = 0) -> None:
    """As the patch of a command: number all calls that change a folder, and die at one of them.

    A call of the system (open for writing, write, rename, link, remove, mkdir, rmdir) is not made any more. Of a write,
    the first half of its bytes is still written. Calls elsewhere do not count. The file `told` gets a line for each,
    and a file beside it one for each content that is on the disk, `os.fsync`, for `lose_power`.
    """
    lines, real_write, real_open = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.write, io.open
    synced, real_sync = os.open(f"{told}.synced", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.fsync
    count, inside = 0, str(folder)

    def counted(call: str, path: Any, before: Callable[[], Any] = lambda: None) -> None:
        nonlocal count
        count += 1
        real_write(lines, f"{call} {os.path.relpath(path, inside)}\n".encode())
        if count == die_at:
            before()
            os.kill(os.getpid(), signal.SIGKILL)

    def is_inside(path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(inside)

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and is_inside(args[0]) and args[2] & (os.O_WRONLY | os.O_RDWR):
            counted("open", args[0])
        elif event in ("os.rename", "os.link") and is_inside(args[1]):
            counted(event[3:], args[1])
        elif event in ("os.remove", "os.mkdir", "os.rmdir") and is_inside(args[0]):
            counted(event[3:], args[0])

    def write(number: int, data: Any) -> int:
        path = os.readlink(f"/proc/self/fd/{number}")
        if is_inside(path):
            counted("write", path, lambda: real_write(number, bytes(data)[: len(data) // 2]))
        return real_write(number, data)

    def sync(file: Any) -> None:
        real_sync(file)
        found = os.fstat(file if isinstance(file, int) else file.fileno())
        real_write(synced, f"{found.st_ino} {found.st_size}\n".encode())

    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            counted("write", self.name, lambda: super(Raw, self).write(bytes(data)[: len(data) // 2]))
            return super().write(data)

    def opened(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **named: Any) -> Any:
        if not is_inside(file) or not set(mode) & set("wax+"):
            return real_open(file, mode, buffering, *args, **named)
        raw = Raw(os.fspath(file), mode.replace("b", "").replace("t", ""))
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, named.get("encoding"))

    io.open = builtins.open = opened  # type: ignore[assignment]
    os.write, os.fsync = write, sync
    sys.addaudithook(audit)


def sizes(folder: Path) -> dict[int, int]:
    """Return the size of each file of a folder by its inode."""
    found = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return {each.st_ino: each.st_size for each in found}


def lose_power(folder: Path, base: Path, before: dict[int, int], draw: random.Random) -> None:
    """After a command that died in `calls_of`: lose what the disk may not have, of contents that nobody has synced.

    Names are kept, as file systems write them to their journals before they write contents: this is the worst case.
    """
    safe = before | {int(node): int(size) for node, size in map(str.split, (base / "calls.synced").open())}
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size > (kept := safe.get(path.stat().st_ino, 0)):
            content = path.read_bytes()
            lost = content[draw.choice([kept, (kept + len(content)) // 2, len(content)]) :]
            zeros = bytes(len(lost)) if draw.random() < 0.3 else b""
            path.write_bytes(content[: len(content) - len(lost)] + zeros)


def calls_of(folder: Path, base: Path, words: tuple[object, ...], die_at: int = 0) -> tuple[Ended, list[str]]:
    """Run a command that dies at a call; return how it ended and the calls, those of before it included."""
    patch = functools.partial(write_calls, folder, base / "calls", die_at)
    ended = Started(base / "log", *words, patch=patch).ended()
    return ended, (base / "calls").read_text().splitlines()


def results(folder: Path) -> dict[str, Any]:
    """Return all that a study has written, without seconds, how it was made, and states, which a kill may lose."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name == "summary.json":
            found[name] = without_seconds(json.loads(path.read_text()))
        elif name == "config.json":
            content = json.loads(path.read_text())
            found[name] = {key: content[key] for key in ("status", "config", "points", "seeds")}
        elif name.endswith(array_files.SUFFIX) and not name.endswith(STATE_SUFFIX):
            kind = "run 2" if path.parent.name == "runs" else model_files.MODEL_FORMAT
            found[name] = array_files.checksums_in(array_files.read(path, kind)[0])
        elif name != LOCK and path.is_file() and not name.endswith(STATE_SUFFIX):
            found[name] = path.read_bytes()
    return found


def verdict(ended: Ended, folder: Path, reference: dict[str, Any]) -> str:
    """Return what a command made of a fault, beside the `results` without it: "equal", "refused", or what is wrong."""
    said = ended.said()
    if "Traceback" in ended.err:
        return f"a traceback: {ended.err}"
    if ended.status == 2:  # what a study has told of its way before is not counted
        errors = [line.startswith("error: ") for line in said.splitlines()]
        return "refused" if errors[-1:] == [True] and sum(errors) == 1 else f"not one line: {said!r}"
    if ended.status:
        return f"status {ended.status}: {said!r}"
    try:
        found = results(folder)
    except UserError as error:  # a damaged file of models, which a study does not read itself, is told to whoever does
        return "refused" if "\n" not in str(error) else f"several lines: {error}"
    differing = [name for name in {**reference, **found} if found.get(name, b"") != reference.get(name, b"")]
    return f"other results: {', '.join(differing)}" if differing else "equal"


def damages(content: bytes, draw: random.Random, flips: int = 2) -> Iterator[tuple[str, bytes]]:
    """Yields what a disk, a broken transfer or a crash may leave of a file of some bytes, each with what was done."""
    size = len(content)
    yield "empty", b""
    yield "half of it", content[: size // 2]
    yield "without its last byte", content[:-1]
    yield "longer", content + content[:100]
    begin = draw.randrange(size)
    yield f"zeros from {begin}", content[:begin] + bytes(len(content[begin : begin + 512])) + content[begin + 512 :]
    for _ in range(flips):
        place, bit = draw.randrange(size), draw.randrange(8)
        flipped = bytes([content[place] ^ (1 << bit)])
        yield f"bit {bit} of byte {place}", content[:place] + flipped + content[place + 1 :]
