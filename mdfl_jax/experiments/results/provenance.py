"""Records how a result was made: command, commit, versions and devices."""

import json
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from mdfl_jax.experiments.results.files import dumps
from mdfl_jax.experiments.run.study import Study


def commit() -> str | None:
    """Returns the git commit of the code, with '-dirty' if the tree has changes; None outside of a checkout."""
    git = [
        "git",
        "-C",
        str(Path(__file__).resolve().parent),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=40",
        "--exclude=*",
    ]
    try:
        return subprocess.run(git, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that results depend on."""
    packages = ("mdfl_jax", "jax", "jaxlib", "flax", "optax", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def devices() -> list[str]:
    """Describes each device of this process."""
    return [f"{device.platform}:{device.id} {device.device_kind}" for device in jax.local_devices()]


def _started_as() -> list[str]:
    """Returns the words of the command before its arguments. The command `mdfl` leaves them in ``sys.argv[0]``."""
    is_installed = sys.argv[0].startswith("mdfl ")
    return sys.argv[0].split() if is_installed else ["python", "-m", "launch.sweep"]


def provenance() -> dict[str, Any]:
    """Returns how a result was made: command, commit, versions and devices."""
    return {
        "command": shlex.join([*_started_as(), *sys.argv[1:]]),
        "commit": commit(),
        "versions": versions(),
        "devices": devices(),
    }


def identity(study: Study) -> dict[str, Any]:
    """Returns what must be the same in all processes of a study: configuration, code, versions, data and files."""
    shared = {"config": study.config, "commit": commit(), "versions": versions()}
    return json.loads(dumps(shared))  # the form in which another process receives it


def difference(here: Any, there: Any, path: str = "") -> str:
    """Says in words where two JSON trees first differ, or '' if they are equal.

    >>> difference({"seeds": 2, "network": {"radius": 1.0}}, {"seeds": 2, "network": {"radius": 3.0}})
    'network.radius is 3.0 there and 1.0 here'
    """
    if isinstance(here, dict) and isinstance(there, dict):
        for key in [*here, *(key for key in there if key not in here)]:
            if found := difference(here.get(key), there.get(key), f"{path}.{key}" if path else key):
                return found
        return ""
    return "" if here == there else f"{path} is {there!r} there and {here!r} here"
