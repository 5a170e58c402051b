"""Reads traces of waypoints: BonnMotion's movements and the setdest scripts of ns-2."""

import math
import re
from itertools import pairwise
from pathlib import Path

from mdfl_jax.traces.reading import TRACE_FORMATS, Columns, TraceFormat, lines_of, number, opened, wrong
from mdfl_jax.traces.trace import Trace


def read_bonnmotion(path: str | Path) -> Trace:
    """Read BonnMotion's native format, ``.movements`` (BonnMotion manual, section on output to its native format).

    Each line is one node, whose name is its number from 0. It contains ``time x y`` for each waypoint, in seconds and
    metres. Between two waypoints a node moves straight at constant speed. Lines that begin with # are comments.

    Raises:
      UserError: for a file that is damaged or cut off, a line whose numbers are not a multiple of three, or times that
        do not grow.
    """
    columns = Columns(path)
    node = 0
    with opened(path) as stream:
        for line, text in enumerate(lines_of(path, stream), 1):
            words = text.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) % 3:
                wrong(path, f"{len(words)} numbers; a waypoint has three, time x y (no z)", line)
            values = [number(path, line, ("time", "x", "y")[i % 3], word) for i, word in enumerate(words)]
            for time, x, y in zip(values[::3], values[1::3], values[2::3]):
                columns.add(line, str(node), time, x, y)
            node += 1
    return columns.trace("bonnmotion", waypoints=True)


_FEW = 50  # lines by which the format is found
_NODE = r"\$node_\((?P<node>\w+)\)"
_SET = re.compile(rf"{_NODE}\s+set\s+(?P<axis>[XYZ])_\s+(?P<value>\S+)$")
_SETDEST = re.compile(rf"{_NODE}\s+setdest\s+(?P<x>\S+)\s+(?P<y>\S+)\s+(?P<speed>\S+)$")
_AT = re.compile(r"\$ns_?\s+at\s+(?P<time>\S+)\s+\"(?P<command>[^\"]*)\"$")
_IGNORED = re.compile(r"#|set\s|\$god_\s|$")

_Leg = tuple[float, float, float, float]  # (time, x, y, speed): from this time on, towards x, y at this speed


def read_ns2(path: str | Path) -> Trace:
    """Read a movement script of ns-2 (The ns Manual, chapter on mobile networking, setdest).

    ``$node_(0) set X_ 1.0`` places a node at time 0. ``$ns_ at 2.0 "$node_(0) setdest 10.0 5.0 1.5"`` sends it, from
    the place where it then is, straight to another place, at a speed in m/s. It moves until it arrives or is sent
    elsewhere. Speed 0 stops it. Z_ and the commands of $god_ are ignored.

    Raises:
      UserError: for a file that is damaged or cut off, unknown commands, a negative time or speed, or a node without a
        first place.
    """
    places: dict[str, dict[str, float]] = {}
    legs: dict[str, list[_Leg]] = {}
    seen: dict[str, int] = {}
    with opened(path) as stream:
        for line, text in enumerate(lines_of(path, stream), 1):
            _read_line(path, line, text.strip(), places, legs, seen)
    columns = Columns(path)
    for name, line in seen.items():
        place = places.get(name, {})
        if missing := [axis for axis in "XY" if axis not in place]:
            wrong(path, f"node {name} is given no first place: set {missing[0]}_ is missing", line)
        for time, x, y in _corners(place["X"], place["Y"], legs.get(name, [])):
            columns.add(line, name, time, x, y)
    return columns.trace("ns2", waypoints=True)


def _read_line(
    path: str | Path,
    line: int,
    text: str,
    places: dict[str, dict[str, float]],
    legs: dict[str, list[_Leg]],
    seen: dict[str, int],
) -> None:
    """Read one command of a script, and store it in ``places`` or ``legs``."""
    time, command = 0.0, text
    if at := _AT.match(text):
        time, command = number(path, line, "time", at["time"]), at["command"].strip()
        if time < 0:
            wrong(path, f"time is {time:g}; it must be at least 0", line)
    if (found := _SET.match(command)) and time == 0.0:
        places.setdefault(found["node"], {})[found["axis"]] = number(path, line, f"{found['axis']}_", found["value"])
    elif at and (found := _SETDEST.match(command)):
        x, y, speed = (number(path, line, field, found[field]) for field in ("x", "y", "speed"))
        if speed < 0:
            wrong(path, f"speed is {speed:g}; it must be at least 0", line)
        legs.setdefault(found["node"], []).append((time, x, y, speed))
    elif _IGNORED.match(command):
        return
    else:
        known = "set X_ at time 0, $ns_ at TIME with setdest x y speed, $god_"
        wrong(path, f"{text[:60]!r} is not a known command, or is cut off; known: {known}", line)
    seen.setdefault(found["node"], line)


def _corners(x: float, y: float, legs: list[_Leg]) -> list[tuple[float, float, float]]:
    """Return the corners (time, x, y) of a node's path: where it starts, arrives, is sent elsewhere, begins to move.

    ns-2 executes commands in the order of their times. Of two commands at the same time, the later line counts.

    >>> _corners(0.0, 0.0, [(0.0, 10.0, 0.0, 1.0), (4.0, 4.0, 3.0, 1.0)])
    [(0.0, 0.0, 0.0), (4.0, 4.0, 0.0), (7.0, 4.0, 3.0)]
    """
    corners = [(0.0, x, y)]
    legs = list({leg[0]: leg for leg in sorted(legs, key=lambda leg: leg[0])}.values())
    for (time, to_x, to_y, speed), until in zip(legs, [*(leg[0] for leg in legs[1:]), math.inf]):
        if time > corners[-1][0]:
            corners.append((time, x, y))
        length = math.hypot(to_x - x, to_y - y)
        if length == 0 or speed == 0:
            continue
        arrival = time + length / speed
        if arrival <= until:
            x, y = to_x, to_y
        else:
            share = (until - time) * speed / length
            x, y = x + (to_x - x) * share, y + (to_y - y) * share
        end = min(arrival, until)
        if end > time:  # else the leg is too short for the resolution of the time, and its end replaces its start
            corners.append((end, x, y))
        else:
            corners[-1] = (time, x, y)
    return corners


def _are_waypoints(text: str) -> bool:
    """Tell whether a text begins with a line of waypoints, and not with a table.

    A table, such as a list of contacts, has lines of one length that begin with different numbers. As waypoints these
    would be nodes that all have as many and appear at different times.
    """
    try:
        rows = [
            [float(word) for word in line.split()] for line in text.splitlines()[:_FEW] if line[:1] not in ("", "#")
        ]
    except ValueError:
        return False
    if not rows or any(len(row) % 3 for row in rows[:-1] or rows):  # the last line may be cut off
        return False
    is_table = len({len(row) for row in rows}) == 1 and len({row[0] for row in rows}) > 1
    return not is_table and all(a < b for row in rows[:-1] or rows for a, b in pairwise(row[::3]))


TRACE_FORMATS.register("bonnmotion", doc="BonnMotion's native format: a line of waypoints for each node.")(
    TraceFormat(read_bonnmotion, (".movements",), _are_waypoints)
)
TRACE_FORMATS.register("ns2", doc="A movement script of ns-2, with setdest.")(
    TraceFormat(read_ns2, (".ns_movements", ".tcl"), lambda text: "$node_(" in text or "$ns_ " in text)
)
