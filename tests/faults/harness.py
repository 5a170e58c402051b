"""Commands that are killed at any moment, and what of their files is compared."""

import builtins
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forked import Ended

KILLED = -signal.SIGKILL
SECONDS = "_seconds"  # entries with names that end so differ from run to run

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
"""Two batches of two runs each, with a checkpoint after each evaluation."""


def write_calls(folder: Path, told: Path, die_at: int = 0) -> None:
    """As the patch of a command: numbers all calls that change a folder, and dies at one of them.

    A call of the system (open for writing, rename, remove, mkdir, rmdir, link) is not made any more. Of a write, the
    first half of its bytes is still written.

    Args:
      folder: The folder. Calls elsewhere do not count.
      told: A file outside of it that gets a line for each call.
      die_at: The number of the call, from 1; 0: none.
    """
    lines = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    count, inside = 0, str(folder)

    def counted(call: str, path: Any, before: Callable[[], Any] = lambda: None) -> None:
        nonlocal count
        count += 1
        os.write(lines, f"{call} {os.path.relpath(path, inside)}\n".encode())
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
        elif event in ("os.remove", "os.mkdir", "os.rmdir"):
            beneath = event != "os.mkdir" and args[1] != -1  # `shutil.rmtree` names entries of an open folder
            if beneath or is_inside(args[0]):
                counted(event[3:], os.path.join(inside, "...", args[0]) if beneath else args[0])

    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            counted("write", self.name, lambda: super(Raw, self).write(bytes(data)[: len(data) // 2]))
            return super().write(data)

    real = io.open

    def opened(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **named: Any) -> Any:
        if not is_inside(file) or not set(mode) & set("wax+"):
            return real(file, mode, buffering, *args, **named)
        raw = Raw(os.fspath(file), mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, named.get("encoding"))

    io.open = builtins.open = opened  # type: ignore[assignment]
    sys.addaudithook(audit)


def results(folder: Path) -> dict[str, Any]:
    """Returns all that a study has written, by the name of the file, without seconds and without how it was made.

    Files of arrays are returned as their bytes. Checkpoints, locks and half-written files would be found too.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir():
            found[name] = None
        elif name == "summary.json":
            found[name] = _without_seconds(json.loads(path.read_text()))
        elif name == "config.json":
            content = json.loads(path.read_text())
            found[name] = {key: content[key] for key in ("status", "config", "points", "seeds", "runs_per_batch")}
        else:
            found[name] = path.read_bytes()
    return found


def _without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_seconds(each) for key, each in value.items() if not key.endswith(SECONDS)}
    return [_without_seconds(each) for each in value] if isinstance(value, list) else value


def verdict(ended: Ended, folder: Path, reference: dict[str, Any]) -> str:
    """Returns what a command made of a fault: "equal", "refused", or else what is wrong, in words.

    Args:
      ended: How the command ended.
      folder: The workdir.
      reference: `results` of the study that nothing has disturbed.
    """
    said = ended.said()
    if "Traceback" in ended.err:
        return f"a traceback: {ended.err}"
    if ended.status == 2:  # what a study has told of its way before is not counted
        errors = [line.startswith("error: ") for line in said.splitlines()]
        return "refused" if errors[-1:] == [True] and sum(errors) == 1 else f"not one line: {said!r}"
    if ended.status:
        return f"status {ended.status}: {said!r}"
    found = results(folder)
    differing = [name for name in {**reference, **found} if found.get(name, b"") != reference.get(name, b"")]
    return f"other results: {', '.join(differing)}" if differing else "equal"
