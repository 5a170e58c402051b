"""Records how a result was made: command, commit, versions and devices."""

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax


def commit() -> str | None:
    """Return the git commit of the code, with '-dirty' if the tree has changes; None outside of a checkout."""
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
    """Return the versions of Python and of the packages that results depend on."""
    packages = ("mdfl_jax", "jax", "jaxlib", "flax", "optax", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def devices() -> list[str]:
    """Describe each device of this process."""
    return [f"{device.platform}:{device.id} {device.device_kind}" for device in jax.local_devices()]


def _started_as() -> list[str]:
    """Return the words of the command before its arguments. The command `mdfl` leaves them in ``sys.argv[0]``."""
    if sys.argv[0].startswith("mdfl "):
        return sys.argv[0].split()
    path = Path(sys.argv[0])
    return ["python", "-m", f"launch.{path.stem}" if path.parent.name == "launch" else "launch.sweep"]


def started() -> str:
    """Return the command that was started, as a line for a shell."""
    return shlex.join([*_started_as(), *sys.argv[1:]])


def provenance() -> dict[str, Any]:
    """Return how a result was made: command, commit, versions and devices."""
    return {
        "command": started(),
        "commit": commit(),
        "versions": versions(),
        "devices": devices(),
    }


def parts_of(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how each part of a study was made, from its config.json. A study that was run as a whole is one part."""
    own = {name: manifest.get(name) for name in ("command", "commit", "versions", "devices")}
    shard = {"shard": manifest["shard"]} if manifest.get("shard") else {}
    return list(manifest.get("parts") or [own | shard])


def merged_provenance(manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how a study was put together from parts: this command, all devices of the parts, and the parts."""
    parts = {json.dumps(part, sort_keys=True): part for manifest in manifests for part in parts_of(manifest)}
    on = dict.fromkeys(device for part in parts.values() for device in part.get("devices") or ())
    own = {"command": started(), "commit": commit(), "versions": versions(), "devices": list(on)}
    return own | {"parts": list(parts.values())}
