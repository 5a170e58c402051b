"""How a result was made: command, commit, versions, devices."""

import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax


def commit() -> str | None:
    """The git commit of the code, with a mark where the tree is changed; None outside a checkout."""
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


def provenance() -> dict[str, Any]:
    """How a result was made: command, commit, versions, devices."""
    packages = ("mdfl_jax", "jax", "jaxlib", "flax", "optax", "numpy")
    devices = jax.local_devices()
    return {
        "command": shlex.join(["python", "-m", "launch.sweep", *sys.argv[1:]]),
        "commit": commit(),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
        "devices": [f"{device.platform}:{device.id} {device.device_kind}" for device in devices],
    }
