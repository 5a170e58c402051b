"""Commands in processes of their own: what of their output does not depend on how busy the machine is."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

_PROGRESS = re.compile(r"mdfl_jax: |compiling program |\d+ %: ")


def without_stages(text: str) -> str:
    """A text of standard error without the lines that tell how far a command is."""
    return "".join(line for line in text.splitlines(keepends=True) if not _PROGRESS.match(line))


def heed_interrupts() -> None:
    """As preexec_fn of `Popen`: the command heeds Ctrl-C, which scripts in the background ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start(module: str, *args: object, cwd: Path = ROOT, **variables: str) -> subprocess.Popen[str]:
    """Starts a launcher on two host devices."""
    environment = {"XLA_FLAGS": "", "JAX_NUM_CPU_DEVICES": "2", "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", f"launch.{module}", *map(str, args)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=cwd, env=os.environ | environment, text=True, **pipes)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command, without the lines that tell how far it is."""
    out, err = process.communicate(timeout=300)
    return process.returncode, out, without_stages(err)
