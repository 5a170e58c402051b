"""Records how a result was made: command, commit, versions and devices."""

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def commit() -> str | None:
    """Return the git commit of the code, with '-dirty' if the tree has changes; None outside of a checkout."""
    here = str(Path(__file__).resolve().parent)
    git = ["git", "-C", here, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(git, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on, of those that are installed."""
    packages = ("mdfl_jax", "jax", "jaxlib", "flax", "optax", "numpy", "onednn-cpu-gomp")
    found = {"python": platform.python_version()}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _devices() -> list[str]:
    """Describe each device of this process, or of all hosts that compute together."""
    import jax  # not by those who only read how a result was made

    return [f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices()]


def _started_as() -> list[str]:
    """Return the words of the command before its arguments. The command `mdfl` leaves them in ``sys.argv[0]``."""
    return sys.argv[0].split() if sys.argv[0].startswith("mdfl ") else ["python", Path(sys.argv[0]).name]


def started() -> str:
    """Return the command that was started, as a line for a shell."""
    return shlex.join([*_started_as(), *sys.argv[1:]])


def provenance() -> dict[str, Any]:
    """Return how a result was made: command, commit, versions and devices."""
    return {"command": started(), "commit": commit(), "versions": versions(), "devices": _devices()}


def joined_provenance(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how a study was made whose runs were made in one way, or in several, as by several commands.

    Args:
      parts: How each run was made, as `provenance` returns it.

    Returns:
      The only way in which all were made. Of several ways: this command, all devices, and the ways as ``parts``.
    """
    ways = list({json.dumps(part, sort_keys=True): dict(part) for part in parts}.values())
    if len(ways) == 1:
        return ways[0]
    on = dict.fromkeys(device for part in ways for device in part.get("devices") or ())
    return {"command": started(), "commit": commit(), "versions": versions(), "devices": list(on), "parts": ways}
