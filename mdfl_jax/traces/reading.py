"""What the readers of traces share: streams of bytes, columns of samples, and errors that name a line.

The readers are in `mdfl_jax.traces.formats`, a file for each kind of format. `mdfl_jax.traces.loading` chooses one.
"""

import gzip
import math
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, cast

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.tables import BELOW, COMMENT, EXACT, Rows, date_seconds
from mdfl_jax.storage.given import LARGE, lines_in, open_file
from mdfl_jax.traces.trace import Contacts, Trace

# In metres. Beyond it float32 is coarser than 4 mm, so places are measured from an origin near the first sample.
FAR = 65_536.0
HALF_TURN = 180.0  # degrees of longitude
HIGHEST = 1e38  # near the largest float32

# Bounds, so that no file fills the memory; a sample takes about 20 bytes while it is read.
MOST_SAMPLES = 500_000_000
MOST_CLIENTS = 1_000_000  # in a contact list, as in a study
LONGEST_LINE = 2**26  # characters of a line; bytes of an element of XML


def wrong(path: str | Path, text: str, line: int = 0) -> NoReturn:
    """Raise a `UserError` about a trace file. The error names the line where it is known (``line`` above 0).

    A cell that the text quotes may hold line breaks, which become spaces.
    """
    said = " ".join(text.splitlines())
    raise UserError(f"trace {str(path)!r}{f', line {line}' if line else ''}: {said}")


@contextmanager
def opened(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file as a stream of bytes. Gzip is recognised by the first bytes, not by the name, and decompressed.

    Raises:
      UserError: for a file that is missing, empty, not a file, unreadable, damaged or cut off. This includes errors of
        decoding that occur while the caller reads the stream.
    """
    try:
        file = open_file(path, LARGE)
    except UserError as error:
        wrong(path, str(error))
    try:
        with file as raw:
            magic = raw.peek(2)[:2]
            if not magic:
                wrong(path, "the file is empty")
            if magic == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=raw) as stream:
                    yield cast(IO[bytes], stream)
            else:
                yield raw
    except EOFError:
        wrong(path, "the file is cut off: its gzip stream has no end")
    except (gzip.BadGzipFile, zlib.error) as error:
        wrong(path, f"the gzip stream is damaged ({error})")
    except UnicodeDecodeError as error:
        wrong(path, f"it is not text: byte 0x{error.object[error.start]:02x} is not UTF-8")
    except OSError as error:
        wrong(path, f"it cannot be read ({error.strerror or error})")


def lines_of(path: str | Path, stream: IO[bytes], notes: list[str] | None = None) -> Iterator[str]:
    """Yield the lines of a text, as `mdfl_jax.storage.given.lines_in`.

    Raises:
      UserError: for a line that is longer than `LONGEST_LINE`, or more than `MOST_SAMPLES` lines.
    """
    for line, found in enumerate(lines_in(stream, [] if notes is None else notes, LONGEST_LINE), 1):
        if len(found) == LONGEST_LINE and not found.endswith("\n"):
            wrong(path, f"it has more than {LONGEST_LINE:,} characters, which is no line of a trace", line)
        check_count(path, line, line, "lines")
        yield found


def rows_of(path: str | Path, stream: IO[bytes], notes: list[str] | None = None, **form: Any) -> Rows:
    """Return the rows of a stream that is a table; ``form`` are further arguments of `mdfl_jax.core.tables.Rows`."""
    return Rows(lines_of(path, stream, notes), partial(wrong, path), **form)


def check_count(path: str | Path, count: int, line: int, what: str = "samples") -> None:
    """Check that a file has not more samples than a trace may have.

    Raises:
      UserError: if it has.
    """
    if count > MOST_SAMPLES:
        wrong(path, f"more than {MOST_SAMPLES:,} {what}, which is the most that a trace may have", line)


def read_number(path: str | Path, line: int, name: str, text: str) -> float:
    """Read a finite number from a text.

    Raises:
      UserError: for a text that is no number or not finite; the message has the line and ``name``.
    """
    try:
        value = float(text)
    except ValueError:
        clock = ": seconds, or a date with a time; SUMO writes seconds without --human-readable-time" * (":" in text)
        wrong(path, f"{name} is {text!r}; it must be a number{clock}", line)
    if not abs(value) < EXACT:
        if text.strip().lstrip("+-").isdecimal():
            wrong(path, f"{name} is {text}; {BELOW}", line)
        if not math.isfinite(value):
            wrong(path, f"{name} is {text}; it must be finite", line)
    return value


def parse_whole(path: str | Path, line: int, name: str, text: str, below: int = 2**31) -> int:
    """Read a whole number from a text.

    Raises:
      UserError: for a text that is none, or a number below 0 or not below ``below``.
    """
    try:
        value = int(text)
    except ValueError:
        wrong(path, f"{name} is {text!r}; it must be a whole number", line)
    if not 0 <= value < below:
        wrong(path, f"{name} is {value}; it must be from 0 to {below - 1}", line)
    return value


def seconds(path: str | Path, line: int, text: str, name: str = "time") -> float:
    """Return the seconds since 1970 of a date with a time, in UTC where it names no other zone.

    Raises:
      UserError: for another text, or a date whose day and month cannot be told apart; the message has the line.
    """
    try:
        found = date_seconds(text)
    except UserError as error:
        wrong(path, f"{name} is {error}", line)
    if found is None:
        wrong(path, f"{name} is {text.strip()!r}; it must be a date and a time, such as 2008-10-23T02:53:04Z", line)
    return found


def trace_files(path: str | Path) -> list[tuple[str, Path]]:
    """Return (node, file) for each file of a trace that may be a folder with a file for each node.

    A node has the name of its file without the ending. If the files lie in folders of the folder, each of these is a
    node, whose files follow one another in the order of their names.

    Raises:
      UserError: for a folder without files.
    """
    root = Path(path)
    if not root.is_dir():
        return [(root.name.split(".")[0], root)]
    files = sorted(file for file in root.rglob("*") if file.is_file() and not file.name.startswith("."))
    if not files:
        wrong(path, "the folder holds no files")
    inner = [file.relative_to(root).parts for file in files]
    return [(parts[0] if parts[1:] else parts[0].split(".")[0], file) for parts, file in zip(inner, files)]


def origin_near(x: float, y: float, geographic: bool) -> tuple[float, float]:
    """Choose the origin from which places are measured while a file is read, from the file's first sample.

    >>> origin_near(120.5, 80.0, False), origin_near(691_608.4, 5_334_760.2, False)
    ((0.0, 0.0), (691000.0, 5334000.0))
    """
    if geographic:
        return x, y
    if max(abs(x), abs(y)) < FAR or not (math.isfinite(x) and math.isfinite(y)):
        return 0.0, 0.0
    return math.floor(x / 1000) * 1000.0, math.floor(y / 1000) * 1000.0


class Columns:
    """Collects the samples of a file in compact columns, and checks each of them. Each sample has its own time.

    A sample that is there twice, one after the other, counts once, and `notes` has the number of such samples. All
    samples have a height, or none has.

    Args:
      path: the file, for error messages.
      geographic: whether places are degrees of longitude and latitude.
    """

    def __init__(self, path: str | Path, geographic: bool = False):
        self.path, self.geographic = path, geographic
        self.ids: dict[str, int] = {}
        self.kinds: list[str] = []
        self.last: list[float] = []
        self.at: list[int] = []  # the last sample of each node
        self.line_of: list[int] = []  # and its line
        self.doubled = 0
        self.notes: list[str] = []  # what was not taken as the file has it
        self.time, self.node = array("d"), array("i")
        self.x, self.y, self.z = array("f"), array("f"), array("f")
        self.origin = (0.0, 0.0)

    def add(
        self, line: int, name: str, time: float, x: float, y: float, kind: str = "", z: float | None = None
    ) -> None:
        """Add a sample of the node ``name``; ``line`` is its line in the file, ``z`` its height if it has one.

        The ``kind`` of a node is that of its first sample.

        Raises:
          UserError: for a time that is not finite, or not later than the node's last one, a place that is not on the
            globe, a height that is not finite, or one of some samples only.
        """
        if self.geographic:
            x = self.on_globe(line, name, time, x, y)
        node = self.ids.get(name)
        if node is None:
            if not self.ids:
                self.origin = origin_near(x, y, self.geographic)
            node = self.ids[name] = len(self.last)
            self.kinds.append(kind)
            self.last.append(-EXACT)
            self.at.append(-1)
            self.line_of.append(0)
        if not self.last[node] < time < EXACT:
            if not math.isfinite(time):
                wrong(self.path, f"time is {time}; it must be finite", line)
            if abs(time) >= EXACT:
                wrong(self.path, f"time is {time:.0f}; {BELOW}", line)
            if time == self.last[node]:
                place, at = (np.float32(x - self.origin[0]), np.float32(y - self.origin[1])), self.at[node]
                if place == (self.x[at], self.y[at]) and (z is None or (self.z and np.float32(z) == self.z[at])):
                    self.doubled += 1
                    return
                other = f"; its first one is in line {self.line_of[node]}" if line else ""
                wrong(self.path, f"id {name!r} has a second sample at time {time:.12g}{other}", line)
            wrong(
                self.path,
                f"id {name!r} goes back from time {self.last[node]:.12g} to {time:.12g}; times must grow",
                line,
            )
        self.last[node], self.at[node], self.line_of[node] = time, len(self.time), line
        check_count(self.path, len(self.time), line)
        if z is not None or self.z:
            self.rise(line, name, time, z)
        self.time.append(time)
        self.node.append(node)
        self.x.append(x - self.origin[0])
        self.y.append(y - self.origin[1])

    def rise(self, line: int, name: str, time: float, z: float | None) -> None:
        """Add the height of a sample, before its time is added.

        Raises:
          UserError: if it is missing or not finite, or if the samples before it have none.
        """
        of = f"id {name!r} at time {time:.12g}"
        if z is None or len(self.z) < len(self.time):
            has, had = ("no z", "one") if z is None else ("a z", "none")
            wrong(self.path, f"{of} has {has}, and the samples before it have {had}; all have one, or none has", line)
        if not abs(z) < HIGHEST:
            wrong(self.path, f"{of}: z is {z:g}; it must be finite", line)
        self.z.append(z)

    def on_globe(self, line: int, name: str, time: float, lon: float, lat: float) -> float:
        """Check that a place is on the globe, and return its longitude within 180 degrees of the first sample's.

        So an area across the longitude 180 is in one piece.

        Raises:
          UserError: for a place that is not on the globe.
        """
        for what, value, limit in (("longitude", lon, 180.0), ("latitude", lat, 90.0)):
            if not -limit <= value <= limit:
                of = f"id {name!r} at time {time:.12g}: {what}"
                if not math.isfinite(value):
                    wrong(self.path, f"{of} is {value}; it must be finite", line)
                swapped = what == "latitude" and abs(value) <= 180
                asked = (
                    "are longitude and latitude swapped?"
                    if swapped
                    else "are its places metres? Columns x and y, or trace.format=sumo, read them"
                )
                wrong(self.path, f"{of} {value:.6g} is outside -{limit:g} to {limit:g}; {asked}", line)
        if self.ids and not -HALF_TURN <= lon - self.origin[0] <= HALF_TURN:
            return lon - math.copysign(2 * HALF_TURN, lon)
        return lon

    def trace(self, format_name: str, waypoints: bool = False, instants: array | None = None, why: str = "") -> Trace:
        """Return the samples as a `Trace`, sorted by time. Its places are in the unit of the file.

        Heights that are all zero say no more than none, and count as none: so tools write a plane.

        Args:
          format_name: the name of the file's format; ``_geo`` is added to that of a file of degrees.
          waypoints: whether the samples are the corners of straight paths.
          why: which columns were read as what.
          instants: all instants of the file, at some of which there may be no sample; None: those of the samples.

        Raises:
          UserError: where there are no samples, or places that are not finite.
        """
        time, node = np.frombuffer(self.time), np.frombuffer(self.node, np.int32)
        x, y = np.frombuffer(self.x, np.float32), np.frombuffer(self.y, np.float32)
        z = heights if (heights := np.frombuffer(self.z, np.float32)).any() else None
        if len(time) and np.any(time[1:] < time[:-1]):
            order = np.argsort(time, kind="stable")
            time, node, x, y = time[order], node[order], x[order], y[order]
            z = None if z is None else z[order]
        times = np.unique(time) if instants is None else np.frombuffer(instants)
        offsets = np.append(np.searchsorted(time, times), len(time))
        kinds = tuple(self.kinds) if any(self.kinds) else ()
        twice = f"repeated samples left out: {self.doubled:,}"
        why = "; ".join(filter(None, (why, *self.notes, twice * bool(self.doubled))))
        name = f"{format_name}_geo" if self.geographic else format_name
        trace = Trace(tuple(self.ids), times, offsets, node, x, y, self.origin, waypoints, name, why, kinds, z=z)
        if not len(node):
            wrong(self.path, "it holds no samples")
        for what, column in (("x", x), ("y", y)):
            if not (math.isfinite(column.min()) and math.isfinite(column.max())):  # both are NaN where a sample is NaN
                worst = int(np.argmin(np.isfinite(column)))
                instant = times[np.searchsorted(offsets, worst, side="right") - 1]
                of = f"id {trace.ids[node[worst]]!r} at time {instant:g}"
                wrong(self.path, f"{of}: {what} is {column[worst]}; it must be finite")
        return trace


class TraceFormat(NamedTuple):
    """A format of trace files.

    Attributes:
      read: (path) -> the places in the unit of the file, or the contact list.
      endings: the endings of file names that are of this format, in lower case and without .gz.
      sign: (the beginning of a file's text) -> the header that only this format has, in words; "": there is none.
      folders: whether a trace may be a folder.
      takes_columns: whether ``read`` takes the names of the columns, ``named``.
    """

    read: Callable[..., Trace | Contacts]
    endings: tuple[str, ...] = ()
    sign: Callable[[str], str] = lambda text: ""
    folders: bool = False
    takes_columns: bool = False


TRACE_FORMATS: Registry[TraceFormat] = Registry(
    "trace format", home="mdfl_jax.traces.formats", contrib="formats.traces"
)
"""The formats by name. A format that ends in ``_geo`` reads x and y as longitude and latitude."""


def first_line(text: str) -> str:
    """Return the first line of a text that is not blank and no comment; "" if there is none."""
    return next((line for line in text.splitlines() if line.strip() and not line.startswith(COMMENT)), "")
