"""Runs the tools of an installed SUMO, and reads the statistics that they write. SUMO is the extra `sumo`."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

from mdfl_jax.core.errors import UserError


def sumo_home() -> Path:
    """Find the folder of SUMO, with bin/ and tools/: that of the installed package, or of the variable SUMO_HOME.

    Raises:
      UserError: if SUMO is absent.
    """
    spec = importlib.util.find_spec("sumo")
    found = [Path(place) for place in spec.submodule_search_locations or []] if spec else []
    if given := os.environ.get("SUMO_HOME"):
        found.append(Path(given))
    for home in found:
        if (home / "tools" / "randomTrips.py").is_file():
            return home
    raise UserError(
        "SUMO is absent: install the extra sumo (pip install -e '.[sumo]' in a checkout), or set the environment "
        "variable SUMO_HOME to the folder of an installed one"
    )


def call(home: Path, folder: Path, tool: str, *arguments: object, into: IO[bytes] | None = None) -> None:
    """Run a tool of SUMO.

    Args:
      home: the folder of SUMO.
      folder: the folder in which the tool runs.
      tool: the name of a program in bin/, or of a script in tools/ with its ending .py.
      arguments: its arguments.
      into: an open file that gets what the tool prints, an XML file of SUMO, without the comment at its beginning,
        which has the date. None: it is not kept.

    Raises:
      UserError: if the tool fails. The message has its last line.
    """
    program = [sys.executable, str(home / "tools" / tool)] if tool.endswith(".py") else [str(home / "bin" / tool)]
    command = [*program, *map(str, arguments)]
    environment = os.environ | {"SUMO_HOME": str(home)}
    with open(folder / "said.txt", "w+", encoding="utf-8", errors="replace") as said:
        where = subprocess.PIPE if into else subprocess.DEVNULL
        with subprocess.Popen(command, cwd=folder, env=environment, stdout=where, stderr=said) as running:
            if into and running.stdout:
                without_comment(running.stdout, into)
        said.seek(0)
        if running.returncode:
            lines = said.read().strip().splitlines() or [f"exit status {running.returncode}"]
            line = next((line for line in lines if line.startswith("Error")), lines[-1])
            raise UserError(f"{tool} of SUMO failed: {line}")


def without_comment(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy an XML file of SUMO without the comment at its beginning, which has the date and the options."""
    head = source.read(1 << 16)
    target.write(re.sub(rb"<!--.*?-->\s*", b"", head, count=1, flags=re.DOTALL))
    while part := source.read(1 << 20):
        target.write(part)


def numbers_of(path: Path, tag: str, *names: str) -> list[list[float]]:
    """Read numbers of all elements of a kind from a statistics file of SUMO, which has an element on each line.

    Args:
      path: the file.
      tag: the name of the elements.
      names: the names of attributes with numbers.

    Returns:
      One list a name, with one number an element.
    """
    found: list[list[float]] = [[] for _ in names]
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.lstrip().startswith(f"<{tag} "):
                given = dict(re.findall(r'([\w.]+)="([^"]*)"', line))
                for column, name in zip(found, names):
                    column.append(float(given[name]))
    return found


def only_streets(net: str) -> str:
    """Return the streets of a SUMO network without its junctions and lights, which a map does not need."""
    kept, inside = ['<?xml version="1.0" encoding="UTF-8"?>'], False
    for line in net.splitlines():
        tag = line.strip().split(" ")[0]
        if tag == "<edge":
            inside = "function=" not in line  # else it is a part of a junction
        if tag in ("<net", "</net>", "<location") or (inside and tag in ("<edge", "<lane", "</edge>")):
            kept.append(line)
        inside = inside and tag != "</edge>"
    return "\n".join([*kept, ""])
