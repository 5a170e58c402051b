"""Reads traces of waypoints: BonnMotion's movements and the setdest scripts of ns-2."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mdfl_jax.traces.reading import (
    TRACE_FORMATS,
    Columns,
    TraceFormat,
    lines_of,
    opened,
    read_number,
    trace_files,
    wrong,
)
from mdfl_jax.traces.trace import Trace

FLAT, DEEP = ("time", "x", "y"), ("time", "x", "y", "z")  # a waypoint of BonnMotion in the plane and in space
_HEADER = "#3D"  # the first line of a file in space


def read_bonnmotion(path: str | Path, named: Sequence[str] = ()) -> Trace:
    """Read BonnMotion's native format, ``.movements`` (BonnMotion manual, section on output to its native format).

    Each line is one node, whose name is its number from 0. It contains ``time x y`` for each waypoint, in seconds and
    metres, or ``time x y z`` in a file in space, which begins with the line ``#3D``. Between two waypoints a node moves
    straight at constant speed. Other lines that begin with # are comments.

    Args:
      path: the file, plain or gzip.
      named: what a waypoint has, time,x,y or time,x,y,z; (): as the file says.

    Raises:
      UserError: for a file that is damaged or cut off, a line whose numbers are not a multiple of those of a waypoint,
        or times that do not grow.
    """
    columns, node, form = Columns(path), 0, tuple(named) or FLAT
    if form not in (FLAT, DEEP):
        wrong(path, f"trace.columns is {','.join(named)!r}; a waypoint has time,x,y or time,x,y,z")
    with opened(path) as stream:
        for line, text in enumerate(lines_of(path, stream), 1):
            if line == 1 and text.strip() == _HEADER and not named:
                form = DEEP
            words, size = text.split(), len(form)
            if not words or words[0].startswith("#"):
                continue
            if len(words) % size:
                hint = "" if form == DEEP else f" (in space, the first line is {_HEADER}, or trace.columns=time,x,y,z)"
                wrong(path, f"{len(words)} numbers; a waypoint has {', '.join(form)}{hint}", line)
            values = [read_number(path, line, form[i % size], word) for i, word in enumerate(words)]
            for at in range(0, len(values), size):
                time, x, y, *height = values[at : at + size]
                columns.add(line, str(node), time, x, y, z=height[0] if height else None)
            node += 1
    return columns.trace("bonnmotion", waypoints=True, why=f"a waypoint is {', '.join(form)}")


_NODE = r"\$node_\((?P<node>[\w#.:-]+)\)"
_SET = re.compile(rf"{_NODE}\s+set\s+(?P<axis>[XYZ])_\s+(?P<value>\S+)$")
_SETDEST = re.compile(rf"{_NODE}\s+setdest\s+(?P<x>\S+)\s+(?P<y>\S+)\s+(?P<speed>\S+)$")
_ACTIVITY = re.compile(r"\$g\((?P<node>[\w#.:-]+)\)\s+(?P<what>start|stop)$")
_AT = re.compile(r"\$ns_?\s+at\s+(?P<time>\S+)\s+\"(?P<command>[^\"]*)\"\s*;?\s*(#.*)?$")
_IGNORED = re.compile(r"#|set\s|append\s|\$god_\s|$")


class _Leg(NamedTuple):
    """A command setdest: from a time on, a node goes towards x, y at a speed."""

    time: float
    x: float
    y: float
    speed: float


class _Script:
    """What the commands of one or several files say of each node."""

    def __init__(self, path: str | Path):
        self.path = path
        self.line_of: dict[str, int] = {}
        self.start: dict[str, dict[str, float]] = {}
        self.legs: dict[str, list[_Leg]] = {}
        self.active: dict[str, dict[str, float]] = {}
        self.sampled: set[str] = set()  # nodes that are first sent to where they are, in the line after their place
        self.before = ""  # the command of the line before, where it sets Z_

    def read(self, path: str | Path, line: int, text: str) -> None:
        """Read one command.

        Raises:
          UserError: for an unknown command, or a time or speed below 0.
        """
        time, command = 0.0, text
        if at := _AT.match(text):
            time, command = read_number(path, line, "time", at["time"]), at["command"].strip()
            if time < 0:
                wrong(path, f"time is {time:g}; it must be at least 0", line)
        placed, self.before = self.before, ""
        if (found := _SET.match(command)) and time == 0.0:
            value = read_number(path, line, f"{found['axis']}_", found["value"])
            self.start.setdefault(found["node"], {})[found["axis"]] = value
            self.before = found["node"] if found["axis"] == "Z" else ""
        elif at and (found := _SETDEST.match(command)):
            x, y, speed = (read_number(path, line, field, found[field]) for field in ("x", "y", "speed"))
            if speed < 0:
                wrong(path, f"speed is {speed:g}; it must be at least 0", line)
            node = found["node"]
            place = self.start.get(node, {})
            if placed == node and node not in self.legs and (place.get("X"), place.get("Y")) == (x, y):
                self.sampled.add(node)
            self.legs.setdefault(node, []).append(_Leg(time, x, y, speed))
        elif at and (found := _ACTIVITY.match(command)):
            self.active.setdefault(found["node"], {}).setdefault(found["what"], time)
            return
        elif _IGNORED.match(command):
            self.before = placed
            return
        else:
            known = "set X_ at time 0, $ns_ at TIME with setdest x y speed, $g start and stop, $god_"
            wrong(path, f"{text[:60]!r} is not a known command, or is cut off; known: {known}", line)
        self.line_of.setdefault(found["node"], line)

    def trace(self) -> Trace:
        """Return the places that the commands say.

        Raises:
          UserError: for a node without a first place, or activities of unknown nodes or without an order.
        """
        columns, exported = Columns(self.path), bool(self.sampled)
        if exported and (others := [name for name in self.line_of if name not in self.sampled]):
            wrong(
                self.path,
                f"node {min(self.sampled)} is first sent to where it is, as SUMO exports places, and node {others[0]} "
                "is not: a setdest may be a place or a way",
                self.line_of[others[0]],
            )
        if self.active and not self.line_of:
            wrong(self.path, "it says when nodes are active, and not where; a folder of both files is one trace")
        rises = any(place.get("Z") for place in self.start.values())
        for name, line in self.line_of.items():
            place, legs = self.start.get(name, {}), self.legs.get(name, [])
            if missing := [axis for axis in "XY" if axis not in place]:
                wrong(self.path, f"node {name} is given no first place: set {missing[0]}_ is missing", line)
            if rises and "Z" not in place:
                wrong(self.path, f"node {name} has no height, and others have: set Z_ is missing", line)
            height = place["Z"] if rises else None  # no command changes it
            corners = _corners(place["X"], place["Y"], legs)
            for time, x, y in [leg[:3] for leg in legs] if exported else self.while_active(name, corners):
                columns.add(line, name, time, x, y, z=height)
        if exported:
            return columns.trace(
                "ns2", why="each setdest is a place at its time, as SUMO exports: the first repeats X_"
            )
        trace = columns.trace("ns2", waypoints=True, why="nodes are active from start to stop" if self.active else "")
        return replace(trace, leave=bool(self.active))

    def while_active(self, name: str, corners: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
        """Return the corners of a node from its start to its stop, with its places at these times."""
        if not self.active:
            return corners
        given = self.active.get(name, {})
        latest = max(corners[-1][0], *(time for times in self.active.values() for time in times.values()))
        begin, end = given.get("start", 0.0), given.get("stop", latest)
        if not begin < end:
            wrong(self.path, f"node {name} starts at {begin:g} and stops at {end:g}, not after that")
        inner = [corner for corner in corners if begin < corner[0] < end]
        return [(begin, *_place_at(corners, begin)), *inner, (end, *_place_at(corners, end))]


def _place_at(corners: list[tuple[float, float, float]], time: float) -> tuple[float, float]:
    """Return the place on a path at a time; it is the last one after the end of the path."""
    times, x, y = zip(*corners)
    return float(np.interp(time, times, x)), float(np.interp(time, times, y))


def read_ns2(path: str | Path) -> Trace:
    """Read a movement script of ns-2 (The ns Manual, chapter on mobile networking, setdest).

    ``$node_(0) set X_ 1.0`` places a node at time 0. ``$ns_ at 2.0 "$node_(0) setdest 10.0 5.0 1.5"`` sends it, from
    the place where it then is, straight to another place, at a speed in m/s. It moves until it arrives or is sent
    elsewhere. Speed 0 stops it. ``$ns_ at 2.0 "$g(0) start"`` and ``stop`` say when a node is there; without them it
    always is. Z_ is the height of a node, which it keeps. The commands of $god_ are ignored. The files of a folder are
    one script.

    SUMO's traceExporter (``--ns2mobility-output``) writes another meaning in the same words: a setdest is the place of
    a vehicle at this time. It is known by the first setdest of each node, which follows its place and repeats it. Then
    a node is there from its first setdest to its last one.

    Raises:
      UserError: for a file that is damaged or cut off, unknown commands, a negative time or speed, a node without a
        first place, or one that stops before it starts.
    """
    script = _Script(path)
    for _, file in trace_files(path):
        with opened(file) as stream:
            for line, text in enumerate(lines_of(file, stream), 1):
                script.read(file, line, text.strip())
    return script.trace()


def _corners(x: float, y: float, legs: Sequence[tuple[float, float, float, float]]) -> list[tuple[float, float, float]]:
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


def _space_sign(text: str) -> str:
    return f"the line {_HEADER}" if text.splitlines()[:1] == [_HEADER] else ""


TRACE_FORMATS.register("bonnmotion", doc="BonnMotion's native format: a line of waypoints for each node.")(
    TraceFormat(read_bonnmotion, (".movements",), _space_sign, takes_columns=True)
)
TRACE_FORMATS.register("ns2", doc="A movement script of ns-2, with setdest, or SUMO's export of one.")(
    TraceFormat(read_ns2, (".ns_movements", ".tcl"), folders=True)
)
