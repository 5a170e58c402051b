"""The types that hold a trace in memory: samples of places, or a list of contacts. Also how they are written."""

import gzip
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TextIO

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbering import natural


@dataclass(frozen=True, eq=False)
class Trace:
    """The places of moving nodes (vehicles, people, animals), as samples sorted by time.

    A sample takes 12 bytes, or 16 with its height: each instant is stored once, and places are float32 offsets from a
    nearby origin.

    Attributes:
      ids: names of the M nodes, in the order of their first sample in the file.
      times: [T] float64 distinct instants in seconds, increasing.
      offsets: [T + 1] int64; the samples of instant k are ``offsets[k]:offsets[k + 1]``. There may be none.
      node: [n] int32 index into ``ids`` of each sample. A node has at most one sample per instant.
      x: [n] float32 metres east of the origin.
      y: [n] float32 metres north of the origin.
      origin: the point of the file at which x = y = 0, in metres, or in degrees (longitude, latitude) for a geographic
        file.
      waypoints: whether the samples are the corners of straight paths (BonnMotion, ns-2). Then the path between them is
        exact, and a node stays at its first place before the first sample and at its last place after the last one.
      format: name of the file's format, see `mdfl_jax.traces.TRACE_FORMATS`.
      why: why the file was read so: what the format was recognised by, and which columns were read as what.
      kinds: the type of each node, such as car or bus; () where the file says none.
      leave: whether nodes of waypoints are only there from their first sample to their last one.
      z: [n] float32 heights in metres; None where the file has none, or only zeros.
    """

    ids: tuple[str, ...]
    times: np.ndarray
    offsets: np.ndarray
    node: np.ndarray
    x: np.ndarray
    y: np.ndarray
    origin: tuple[float, float]
    waypoints: bool
    format: str
    why: str = ""
    kinds: tuple[str, ...] = ()
    leave: bool = False
    z: np.ndarray | None = None

    @property
    def stays(self) -> bool:
        """Whether nodes stand before their first sample and after their last one, and are never absent."""
        return self.waypoints and not self.leave

    @property
    def axes(self) -> tuple[np.ndarray, ...]:
        """The columns of a place: x, y, and z where there are heights."""
        return (self.x, self.y) if self.z is None else (self.x, self.y, self.z)

    @property
    def sample_times(self) -> np.ndarray:
        """The instant of each sample, [n] float64. The array is made anew at each call."""
        return np.repeat(self.times, np.diff(self.offsets))


@dataclass(frozen=True, eq=False)
class Contacts:
    """A contact list, which says who was in contact when. Each line of the file is one contact.

    Attributes:
      start: [n] float64 seconds, or whole rounds.
      end: [n] float64 seconds, or ``start + 1`` for a list by rounds. A contact lasts from ``start`` until just before
        ``end``, or for one instant where they are equal.
      pair: [n, 2] int32 clients i and j, counted from 0.
      in_rounds: whether the file is a list by rounds, ``round,i,j``.
      source: the file, for error messages.
      ids: the names that the clients have in the file; () where the file numbers them itself.
      format: name of the file's format.
      why: as of a `Trace`.
      kinds: the type of each client of ``ids``, such as a class of a school; () where the file says none.
      step: seconds between the times of a file that says no ends, for which contacts then hold; 0 where it says ends.
    """

    start: np.ndarray
    end: np.ndarray
    pair: np.ndarray
    in_rounds: bool
    source: str
    ids: tuple[str, ...] = ()
    format: str = "contacts"
    why: str = ""
    kinds: tuple[str, ...] = ()
    step: float = 0.0


def of_names(
    start: Sequence[float],
    end: Sequence[float],
    pairs: Sequence[tuple[object, object]],
    source: str,
    format: str,
    kinds: Mapping[str, str] = MappingProxyType({}),
) -> Contacts:
    """Return the contacts of named nodes, which are numbered in the order of their names, p2 before p10.

    Args:
      start, end: the seconds of each contact.
      pairs: the names of its two nodes, texts or whole numbers.
      source: the file.
      format: name of its format.
      kinds: the type of each node by its name; empty where the file says none.
    """
    names = sorted({str(name) for pair in pairs for name in pair}, key=natural)
    index = {name: k for k, name in enumerate(names)}
    pair = np.array([[index[str(i)], index[str(j)]] for i, j in pairs], np.int32)
    types = tuple(kinds[name] for name in names) if kinds else ()
    return Contacts(
        np.array(start, float), np.array(end, float), pair, False, source, tuple(names), format, kinds=types
    )


class TraceTable(NamedTuple):
    """The places of N clients at the beginning of each of R rounds, and at the end of the last one.

    Attributes:
      position: [R + 1, N, 2] float32 metres from the trace's origin. An absent client has the place where it was last
        seen, or else will first be seen. A client that never appears has the lower left corner of the area.
      present: [R + 1, N] bool. An absent client trains but meets nobody.
      start: time in the trace, in seconds, at which round 0 begins.
      dt: seconds per round.
      goes: [R, N] bool, true where the trace gives the client's path in the round. Elsewhere, for example where a
        vehicle returns from a gap or a client becomes another vehicle, the client stands still and jumps at the end of
        the round. None: the path is given where the client is present at both ends of the round.
      height: [R + 1, N] float32 heights in metres at the places; None where the trace has none.
    """

    position: np.ndarray
    present: np.ndarray
    start: float
    dt: float
    goes: np.ndarray | None = None
    height: np.ndarray | None = None


class ContactTable(NamedTuple):
    """The links of R rounds, sorted by round. Each link occurs once in a round.

    Attributes:
      edges: [n, 2] int32; client ``edges[e, 0]`` hears client ``edges[e, 1]``. A symmetric list has both directions.
      offsets: [R + 1] int64; the links of round k are ``offsets[k]:offsets[k + 1]``.
      num_clients: N.
      seconds: [n] float32, for how long the two clients of each link are in contact in its round; None where nobody
        asked for it.
    """

    edges: np.ndarray
    offsets: np.ndarray
    num_clients: int
    seconds: np.ndarray | None = None


def write_csv(trace: Trace, path: str | Path) -> None:
    """Write ``time,id,x,y``, and z if there is one, by time, in metres to 0.1 mm; gzip where the path ends in .gz.

    A geographic trace is written as it is in memory, in metres about its mean. The file does not say whether the
    samples are waypoints.

    Raises:
      UserError: for an id that the format cannot express, or a file that cannot be written.
    """
    for name in trace.ids:
        if name != name.strip() or any(mark in name for mark in ',"\n\r') or name.startswith("#"):
            raise UserError(f"id {name!r} cannot stand in a CSV file of ours: no commas, quotes, line ends or blanks")
    with _created(path) as out:
        axes = _absolute(trace)
        out.write(",".join(("time", "id", *"xyz"[: len(axes)])) + "\n")
        for time, low, high in zip(trace.times.tolist(), trace.offsets[:-1].tolist(), trace.offsets[1:].tolist()):
            rows = zip(trace.node[low:high].tolist(), *(axis[low:high].tolist() for axis in axes))
            out.writelines(f"{time!r},{trace.ids[node]},{','.join(map(repr, place))}\n" for node, *place in rows)


def write_bonnmotion(trace: Trace, path: str | Path) -> None:
    """Write one line per node, with ``time x y`` or ``time x y z`` for each sample; gzip for .gz. Names are lost.

    In both formats a node moves straight between its samples. This format cannot express absence: a node stands still
    before its first sample and after its last one, and in a gap it stays or continues.

    Raises:
      UserError: for a file that cannot be written.
    """
    order = np.argsort(trace.node, kind="stable")
    ends = np.cumsum(np.bincount(trace.node, minlength=len(trace.ids)))
    rows = np.stack([trace.sample_times[order], *(axis[order] for axis in _absolute(trace))], axis=1)
    with _created(path) as out:
        out.write("#3D\n" if trace.z is not None else "")
        for node in np.split(rows, ends[:-1]):
            out.write(" ".join(map(repr, node.ravel().tolist())) + "\n")


def _absolute(trace: Trace) -> list[np.ndarray]:
    """Return x, y and perhaps z in the metres of the file, float64 [n] each, rounded to 0.1 mm."""
    base = (0.0, 0.0) if trace.format.endswith("_geo") else trace.origin
    return [np.round(column.astype(np.float64) + start, 4) for column, start in zip(trace.axes, (*base, 0.0))]


def _created(path: str | Path) -> TextIO:
    try:
        if str(path).endswith(".gz"):
            # The time of writing is left out, so that the same trace gives the same file.
            return io.TextIOWrapper(gzip.GzipFile(path, "wb", mtime=0), encoding="utf-8")
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{str(path)!r} cannot be written ({error.strerror})") from error
