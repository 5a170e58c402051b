"""Reads traces of SUMO: floating car data (FCD) in XML."""

from array import array
from pathlib import Path

import numpy as np

from mdfl_jax.traces.reading import number, origin_near, settled, wrong
from mdfl_jax.traces.sumo_xml import SumoReader
from mdfl_jax.traces.types import Trace

MOVING = ("vehicle", "person", "container")
KNOWN = ("fcd-export", "timestep", *MOVING)

_METRES = ("x", "y")


class _Reader(SumoReader):
    """The nodes of one file: vehicles, persons and containers. Only the columns are kept, not the document."""

    kind, root_tag = "FCD output", "fcd-export"

    def __init__(self, path: str | Path, geographic: bool):
        super().__init__(path)
        self.geographic, self.axes = geographic, _METRES
        self.ids: dict[str, int] = {}
        self.last: list[int] = []  # each node's last instant, to find a second sample in one instant
        self.times, self.offsets = array("d"), array("q")
        self.node, self.x, self.y = array("i"), array("f"), array("f")
        self.origin = (0.0, 0.0)
        self.instant = -1

    def element(self, tag: str, attributes: list[str]) -> None:
        if tag == "timestep":
            self.timestep(attributes)
            return
        if self.axes == _METRES and attributes[0:5:2] == ["id", "x", "y"]:  # the order in which SUMO writes them
            name, x_text, y_text = attributes[1], attributes[3], attributes[5]
        else:
            name, x_text, y_text = self.look_up(tag, attributes)
        if tag not in MOVING or self.instant < 0:
            self.misplaced(tag)
        try:
            x, y = float(x_text), float(y_text)
        except ValueError:
            x, y = number(self.path, self.line, "x", x_text), number(self.path, self.line, "y", y_text)
        node = self.ids.get(name)
        if node is None:
            if not self.ids:
                self.origin = origin_near(x, y, self.geographic)
            node = self.ids[name] = len(self.last)
            self.last.append(-1)
        if self.last[node] == self.instant:
            time = self.times[self.instant]
            wrong(self.path, f"id {name!r} has a second sample at time {time:g}", self.line)
        self.last[node] = self.instant
        self.node.append(node)
        self.x.append(x - self.origin[0])
        self.y.append(y - self.origin[1])

    def held(self) -> int:
        return len(self.node) + len(self.times)

    def timestep(self, attributes: list[str]) -> None:
        given = dict(zip(attributes[::2], attributes[1::2]))
        if "time" not in given:
            wrong(self.path, "<timestep> has no attribute time", self.line)
        time = number(self.path, self.line, "time", given["time"])
        if self.times and time <= self.times[-1]:
            wrong(self.path, f"time goes from {self.times[-1]:g} to {time:g}; times must grow", self.line)
        self.times.append(time)
        self.offsets.append(len(self.node))
        self.instant += 1

    def look_up(self, tag: str, attributes: list[str]) -> tuple[str, str, str]:
        if tag not in MOVING:
            self.misplaced(tag)
        given = dict(zip(attributes[::2], attributes[1::2]))
        if not self.ids and "lon" in given and "x" not in given:
            self.geographic, self.axes = True, ("lon", "lat")
        names = ("id", *self.axes)  # those of the first sample: degrees and metres are not mixed
        if missing := [name for name in names if name not in given]:
            wrong(self.path, f"<{tag}> has no attribute {missing[0]}", self.line)
        return given[names[0]], given[names[1]], given[names[2]]

    def misplaced(self, tag: str) -> None:
        if tag not in KNOWN:
            wrong(self.path, f"unknown element <{tag}>; known: {', '.join(KNOWN)}", self.line)
        wrong(self.path, f"<{tag}> stands outside of a <timestep>", self.line)


def read_sumo(path: str | Path, geographic: bool = False) -> Trace:
    """Read SUMO's FCD output, plain or gzip, as a stream (SUMO user documentation, Simulation/Output/FCDOutput).

    ``<timestep time="..">`` elements contain ``<vehicle>``, ``<person>`` and ``<container>`` elements with the
    attributes id, x and y, in any order. Other attributes are ignored. A file whose first such element has lon and lat
    in place of x and y is geographic.

    Args:
      path: the file.
      geographic: whether x and y are degrees of longitude and latitude, as ``--fcd-output.geo`` writes them. The file
        itself does not say so.

    Returns:
      The trace, in metres.

    Raises:
      UserError: for a file that is no FCD output, is damaged or cut off, has unknown elements, declares a document
        type, has times that do not grow, or has an id twice in one time step.
    """
    reader = _Reader(path, geographic)
    reader.read()
    reader.offsets.append(len(reader.node))
    trace = Trace(
        ids=tuple(reader.ids),
        times=np.frombuffer(reader.times),
        offsets=np.frombuffer(reader.offsets, np.int64),
        node=np.frombuffer(reader.node, np.int32),
        x=np.frombuffer(reader.x, np.float32),
        y=np.frombuffer(reader.y, np.float32),
        origin=reader.origin,
        waypoints=False,
        format="sumo",
    )
    return settled(path, trace, reader.geographic)
