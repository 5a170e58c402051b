"""The streets of a SUMO network (.net.xml), as straight pieces for maps."""

from pathlib import Path

import numpy as np

from mdfl_jax.traces.reading import number, wrong
from mdfl_jax.traces.sumo_xml import SumoReader
from mdfl_jax.traces.types import Trace

TOLERANCE = 1.0  # metres by which a simplified street may differ from that of the file
MOST_PIECES = 20_000  # of a larger network the streets are simplified further, until no more are left


class _Reader(SumoReader):
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
        x, y = (number(self.path, self.line, "a coordinate of a lane's shape", axis) for axis in axes[:2])
        return x, y


def read_streets(path: str | Path) -> list[np.ndarray]:
    """Read the streets of a SUMO network, plain or gzip.

    Args:
      path: the file.

    Returns:
      A polyline [k, 2] float64 for each edge that is no part of a junction, in the metres of the file: that of its
      first lane.

    Raises:
      UserError: for a file that cannot be read, that is no network of SUMO, or that has no street.
    """
    reader = _Reader(path)
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
      UserError: as `read_streets`, or if the places of the trace's file are in degrees.
    """
    if trace.format.endswith("_geo"):
        wrong(path, "the network is in metres, and the places of the trace are in degrees; FCD output has both")
    streets, tolerance = read_streets(path), TOLERANCE
    lines = [simplified(street, tolerance) for street in streets]
    while sum(len(line) - 1 for line in lines) > max(MOST_PIECES, len(streets)):
        tolerance *= 2
        lines = [simplified(line, tolerance) for line in lines]
    pieces = np.concatenate([np.hstack([line[:-1], line[1:]]) for line in lines])
    return (pieces - np.tile(trace.origin, 2)).astype(np.float32)
