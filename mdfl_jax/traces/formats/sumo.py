"""Reads the XML files of SUMO: traces (floating car data, FCD), and the streets of a network (.net.xml) for maps."""

import abc
import re
from array import array
from functools import partial
from pathlib import Path
from xml.parsers import expat

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces.reading import (
    LONGEST_LINE,
    TRACE_FORMATS,
    Columns,
    TraceFormat,
    check_count,
    opened,
    read_number,
    wrong,
)
from mdfl_jax.traces.trace import Trace

_CHUNK = 1 << 18
MOVING = ("vehicle", "person", "container")
KNOWN = ("fcd-export", "timestep", *MOVING)
_METRES = ("x", "y")
_GEO = re.compile(r"""fcd-output\.geo\s+value=["'](true|1|yes|on)["']""")  # in the comment with SUMO's options
TOLERANCE = 1.0  # metres by which a simplified street may differ from that of the file
MOST_PIECES = 20_000  # of a larger network the streets are simplified further, until no more are left


class SumoReader(abc.ABC):
    """The expat handlers for one file. A subclass has `element`, which is called once for each element but the root.

    Attributes:
      kind: what the file is, for errors.
      root_tag: the name of its root element.
    """

    kind, root_tag = "", ""

    def __init__(self, path: str | Path):
        self.path = path
        self.parser = expat.ParserCreate()
        self.parser.ordered_attributes = True  # a list: a quarter faster than a dict
        self.parser.StartElementHandler = self.root
        self.parser.StartDoctypeDeclHandler = self.refuse

    @property
    def line(self) -> int:
        """The line of the file at which the parser is, from 1."""
        return self.parser.CurrentLineNumber

    def refuse(self, *_: object) -> None:
        """Refuse a document type, with which a small file can stand for a huge one."""
        wrong(self.path, f"a document type (DOCTYPE, entities) is refused; {self.kind} has none", self.line)

    def root(self, tag: str, _: list[str]) -> None:
        """Check the root element."""
        if tag != self.root_tag:
            wrong(self.path, f"the root element is <{tag}>; {self.kind} of SUMO has <{self.root_tag}>", self.line)
        self.parser.StartElementHandler = self.element

    @abc.abstractmethod
    def element(self, tag: str, attributes: list[str]) -> None:
        """Take an element; its attributes are names and values in turn."""

    def held(self) -> int:
        """Return the number of things that the reader has kept so far, which is bounded."""
        return 0

    def read(self) -> None:
        """Read the whole file, plain or gzip.

        Raises:
          UserError: for a file that cannot be read, is no XML or is cut off, or that a handler refuses.
        """
        final = False
        try:
            with opened(self.path) as stream:
                fed = 0
                while chunk := stream.read(_CHUNK):
                    self.parser.Parse(chunk, False)
                    fed += len(chunk)
                    if fed - self.parser.CurrentByteIndex > LONGEST_LINE:  # which the parser keeps in memory
                        wrong(self.path, f"an element has more than {LONGEST_LINE:,} bytes", self.line)
                    check_count(self.path, self.held(), self.line)
            final = True
            self.parser.Parse(b"", True)
        except expat.ExpatError as error:
            if final:
                wrong(self.path, "the file is cut off: it ends within an element", error.lineno)
            wrong(self.path, f"it is not XML ({expat.ErrorString(error.code)})", error.lineno)
        except (LookupError, ValueError) as error:  # of the encoding that the file names
            if isinstance(error, UserError):
                raise
            wrong(self.path, f"it is not XML ({error})")


class _FCDReader(SumoReader):
    """The nodes of one file: vehicles, persons and containers. Only the columns are kept, not the document."""

    kind, root_tag = "FCD output", "fcd-export"

    def __init__(self, path: str | Path, geographic: bool):
        super().__init__(path)
        self.axes, self.times, self.columns = _METRES, array("d"), Columns(path, geographic)
        self.why, self.within = "", False
        self.tag_of: dict[str, str] = {}
        self.parser.CommentHandler = self.comment
        self.parser.EndElementHandler = self.end

    def comment(self, text: str) -> None:
        """Take SUMO's options, which it writes into a comment at the beginning."""
        if _GEO.search(text) and not self.columns.ids:
            self.columns.geographic, self.why = True, "degrees, as the option fcd-output.geo at its beginning says"

    def element(self, tag: str, attributes: list[str]) -> None:
        if tag == "timestep":
            self.timestep(attributes)
            return
        if self.axes == _METRES and attributes[0:5:2] == ["id", "x", "y"]:  # the order in which SUMO writes them
            name, x_text, y_text = attributes[1], attributes[3], attributes[5]
        else:
            name, x_text, y_text = self.look_up(tag, attributes)
        if tag not in MOVING or not self.within:
            self.misplaced(tag)
        try:
            x, y = float(x_text), float(y_text)
        except ValueError:
            x, y = read_number(self.path, self.line, "x", x_text), read_number(self.path, self.line, "y", y_text)
        z = None
        if "z" in attributes and (z_text := dict(zip(attributes[::2], attributes[1::2])).get("z")) is not None:
            z = read_number(self.path, self.line, "z", z_text)
        if (first := self.tag_of.setdefault(name, tag)) != tag:
            name = self.of_two(tag, name, first)
        is_new = name not in self.columns.ids
        untyped = "" if tag == "vehicle" else tag
        kind = dict(zip(attributes[::2], attributes[1::2])).get("type", untyped) if is_new else ""
        self.columns.add(self.line, name, self.times[-1], x, y, kind, z)

    def of_two(self, tag: str, name: str, first: str) -> str:
        """Return the name of a node whose id another kind of node has, too: SUMO numbers each kind by itself."""
        own = f"{tag} {name}"
        if own not in self.columns.ids:
            self.columns.notes.append(f"id {name!r} is a {first} and a {tag}, which is called {own!r}")
        return own

    def end(self, tag: str) -> None:
        """Take the end of a timestep."""
        if tag == "timestep":
            self.within = False

    def held(self) -> int:
        return len(self.columns.node) + len(self.times)

    def timestep(self, attributes: list[str]) -> None:
        given = dict(zip(attributes[::2], attributes[1::2]))
        if "time" not in given:
            wrong(self.path, "<timestep> has no attribute time", self.line)
        time = read_number(self.path, self.line, "time", given["time"])
        if self.times and time <= self.times[-1]:
            wrong(self.path, f"time goes from {self.times[-1]:g} to {time:g}; times must grow", self.line)
        self.times.append(time)
        self.within = True

    def look_up(self, tag: str, attributes: list[str]) -> tuple[str, str, str]:
        if tag not in MOVING:
            self.misplaced(tag)
        given = dict(zip(attributes[::2], attributes[1::2]))
        if not self.columns.ids and "lon" in given and "x" not in given:
            self.columns.geographic, self.axes, self.why = True, ("lon", "lat"), "degrees, as lon and lat say"
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
    attributes id, x and y, in any order, and z where the network has heights; type is the type of a node (by default
    person or container for these), and other attributes are ignored. A file whose first such element has lon and lat in
    place of x and y is in degrees, and so is one that was written with ``--fcd-output.geo``: the comment at its
    beginning has SUMO's options.

    Args:
      path: the file.
      geographic: whether x and y are degrees of longitude and latitude although the file does not say so.

    Returns:
      The trace, in the unit of the file.

    Raises:
      UserError: for a file that is no FCD output, is damaged or cut off, has unknown elements, declares a document
        type, has times that do not grow, has an id twice in one time step, or has heights of some samples only.
    """
    reader = _FCDReader(path, geographic)
    reader.read()
    return reader.columns.trace("sumo", instants=reader.times, why=reader.why)


def _sign(text: str) -> str:
    return "the element <fcd-export>" if "<fcd-export" in text else ""


TRACE_FORMATS.register("sumo", doc="SUMO's FCD output, in metres or degrees as the file says.")(
    TraceFormat(read_sumo, (".xml",), _sign)
)
TRACE_FORMATS.register("sumo_geo", doc="SUMO's FCD output in degrees, where the file does not say so.")(
    TraceFormat(partial(read_sumo, geographic=True))
)


class _NetworkReader(SumoReader):
    """The streets of one file: the shape of the first lane of each edge that is no part of a junction."""

    kind, root_tag = "a network", "net"

    def __init__(self, path: str | Path):
        super().__init__(path)
        self.streets, self.wanted = list[np.ndarray](), False

    def held(self) -> int:
        return len(self.streets)

    def element(self, tag: str, attributes: list[str]) -> None:
        given = dict(zip(attributes[::2], attributes[1::2]))
        if tag == "edge":
            self.wanted = given.get("function", "normal") == "normal"
        elif tag == "lane" and self.wanted and "shape" in given:
            self.wanted = False
            points = [self.point(text) for text in given["shape"].split()]
            if len(points) > 1:
                self.streets.append(np.array(points))

    def point(self, text: str) -> tuple[float, float]:
        axes = text.split(",")
        if len(axes) not in (2, 3):  # the third one is the height
            wrong(self.path, f"a lane's shape has the point {text!r}; it must be x,y or x,y,z", self.line)
        x, y = (read_number(self.path, self.line, "a coordinate of a lane's shape", axis) for axis in axes[:2])
        return x, y


def streets_of_network(path: str | Path) -> list[np.ndarray]:
    """Read the streets of a SUMO network, plain or gzip.

    Args:
      path: the file.

    Returns:
      A polyline [k, 2] float64 for each edge that is no part of a junction, in the metres of the file: that of its
      first lane.

    Raises:
      UserError: for a file that cannot be read, that is no network of SUMO, or that has no street.
    """
    reader = _NetworkReader(path)
    reader.read()
    if not reader.streets:
        wrong(path, "the network has no edge with a lane")
    return reader.streets


def simplified(line: np.ndarray, tolerance: float) -> np.ndarray:
    """Leave out points of a polyline that are nearly on it (Douglas and Peucker 1973).

    Args:
      line: [k, 2] the points, at least two.
      tolerance: the largest distance of a point that is left out from the simplified polyline.

    Returns:
      The points that are left, in their order, with the first and the last.
    """
    kept = np.zeros(len(line), bool)
    kept[[0, -1]] = True
    todo = [(0, len(line) - 1)]
    while todo:
        first, last = todo.pop()
        if last - first < 2:
            continue
        start, way = line[first], line[last] - line[first]
        inner = line[first + 1 : last] - start
        along = np.clip(inner @ way / max(float(way @ way), 1e-30), 0, 1)
        away = np.hypot(*(inner - along[:, None] * way).T)
        worst = int(np.argmax(away))
        if away[worst] > tolerance:
            kept[first + 1 + worst] = True
            todo += [(first, first + 1 + worst), (first + 1 + worst, last)]
    return line[kept]


def street_pieces(path: str | Path, trace: Trace) -> np.ndarray:
    """Return the streets of a SUMO network as straight pieces, in the coordinates of a trace's places.

    Args:
      path: the file of the network.
      trace: a trace in the metres of this network.

    Returns:
      [K, 4] float32, from (x, y) to (x, y), with K at most `MOST_PIECES` unless the network has more streets.

    Raises:
      UserError: as `streets_of_network`, or if the places of the trace's file are in degrees.
    """
    if trace.format.endswith("_geo"):
        wrong(path, "the network is in metres, and the places of the trace are in degrees; FCD output has both")
    streets, tolerance = streets_of_network(path), TOLERANCE
    lines = [simplified(street, tolerance) for street in streets]
    while sum(len(line) - 1 for line in lines) > max(MOST_PIECES, len(streets)):
        tolerance *= 2
        lines = [simplified(line, tolerance) for line in lines]
    pieces = np.concatenate([np.hstack([line[:-1], line[1:]]) for line in lines])
    return (pieces - np.tile(trace.origin, 2)).astype(np.float32)
