"""What the places of a cluster share: their settings, their packages, and the function that runs a worker there."""

import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mdfl_jax.contrib.cluster.crew import Order
from mdfl_jax.core.errors import UserError

_COMMON = {  # what settings are called here: for submitit, and for Ray
    "partition": ("slurm_partition", ""),
    "time": ("timeout_min", ""),
    "cpus": ("cpus_per_task", "num_cpus"),
    "gpus": ("gpus_per_node", "num_gpus"),
}


def settings_of(given: Mapping[str, str], column: int) -> dict[str, Any]:
    """Return settings by the names that submitit (column 0) or Ray (1) gives them, numbers as numbers."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = _COMMON.get(key, (key, key))[column]
        if not name:
            raise UserError(f"--cluster={key}={value} is for --on=slurm; Ray's tasks have no {key}")
        is_number = re.fullmatch(r"\d+(\.\d+)?", value)
        found[name] = (float(value) if "." in value else int(value)) if is_number else value
    return found


def package(place: str, name: str) -> Any:
    """Import the package of a place.

    Raises:
      UserError: If it is not installed.
    """
    if importlib.util.find_spec(name) is None:
        raise UserError(f"--on={place} needs the package {name}: pip install 'mdfl_jax[{place}]'")
    return importlib.import_module(name)


def function_of(order: Order) -> Callable[[], tuple[int, str]]:
    """Return the function that runs a worker on another machine: (its status, what it has said on standard error).

    It is sent by its code, since it is no function of a module. So the process there imports nothing of this package.
    """
    command, folder, variables = order

    def work() -> tuple[int, str]:
        import os
        import subprocess
        import tempfile
        import time

        with tempfile.TemporaryFile("w+", errors="replace") as said:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
            try:
                while process.poll() is None:
                    time.sleep(0.1)
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait()
            said.seek(0)
            return process.returncode, said.read()

    return work


def in_a_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    lines: Sequence[str] = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
