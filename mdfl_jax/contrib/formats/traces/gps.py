"""Reads tracks of GPS receivers, in degrees: GeoLife's .plt, GPX, and the files of cabspotting.

A trace is one file, or a folder with a file or a folder for each node (`mdfl_jax.traces.reading.trace_files`).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from mdfl_jax.traces.formats.sumo import SumoReader
from mdfl_jax.traces.reading import (
    TRACE_FORMATS,
    Columns,
    TraceFormat,
    lines_of,
    opened,
    read_number,
    rows_of,
    seconds,
    trace_files,
)
from mdfl_jax.traces.reading import wrong as refuse
from mdfl_jax.traces.trace import Trace

_Sample = tuple[float, int, float, float, float | None]  # seconds, line, longitude, latitude, height
_HEADER = 6  # lines before the first sample of a .plt
_PLT = 7  # its columns
_CAB = 4  # columns of cabspotting
_HEADING = 2000  # characters in which the mark of a format stands


def _trace(path: str | Path, format_name: str, files: Iterable[tuple[str, Path]], read: Callable[[Path], Any]) -> Trace:
    """Return the trace of files with samples of one node each."""
    columns = Columns(path, geographic=True)
    for node, file in files:
        columns.path = file
        for time, line, lon, lat, height in sorted(read(file), key=lambda sample: sample[:2]):
            columns.add(line, node, time, lon, lat, z=height)
    columns.path = path
    return columns.trace(format_name)


def _tracks(path: str | Path, is_track: Callable[[str], bool], wanted: str) -> list[tuple[str, Path]]:
    """Return (node, file) of the tracks of a folder, told by the names of its files, or of the one file that is given.

    Raises:
      UserError: for a folder without tracks.
    """
    files = trace_files(path)
    tracks = [(node, file) for node, file in files if is_track(file.name.lower())] if Path(path).is_dir() else files
    if not tracks:
        refuse(path, f"the folder holds no {wanted}")
    return tracks


def read_geolife(path: str | Path) -> Trace:
    """Read GeoLife's trajectories (Zheng, Xie, Ma, IEEE Data Engineering Bulletin 2010; user guide 1.3).

    After six lines, a line is ``latitude,longitude,0,feet,days,date,time``; date and time are in GMT. A folder has a
    folder for each user, with her trajectories one after another. Its feet are above the sea and often unknown (-777),
    and are left out.

    Raises:
      UserError: for a line of another form, places that are not on the globe, or trajectories of a user that overlap.
    """

    def samples(file: Path) -> Iterator[_Sample]:
        with opened(file) as stream:
            for line, text in enumerate(lines_of(file, stream), 1):
                cells = text.strip().split(",")
                if line <= _HEADER or not text.strip():
                    continue
                if len(cells) != _PLT:
                    refuse(file, f"{len(cells)} columns; a .plt has {_PLT}", line)
                lat, lon = (read_number(file, line, name, cell) for name, cell in zip(("latitude", "longitude"), cells))
                yield seconds(file, line, f"{cells[5]} {cells[6]}"), line, lon, lat, None

    tracks = _tracks(path, lambda name: name.endswith((".plt", ".plt.gz")), "files NAME.plt")
    return _trace(path, "geolife", [(_user(node, file), file) for node, file in tracks], samples)


def _user(node: str, file: Path) -> str:
    """Return the user of a file: the folder of hers has the folder Trajectory, wherever the data set lies."""
    return file.parent.parent.name if file.parent.name == "Trajectory" else node


def read_cabspotting(path: str | Path) -> Trace:
    """Read the taxis of San Francisco (Piorkowski, Sarafijanovic-Djukic, Grossglauser, CRAWDAD epfl/mobility, 2009).

    A line is ``latitude longitude occupancy seconds``, the latest one first. A folder has the files new_NAME.txt.

    Raises:
      UserError: for a line of another form, or places that are not on the globe.
    """

    def samples(file: Path) -> Iterator[_Sample]:
        with opened(file) as stream:
            for line, words in rows_of(file, stream):
                if len(words) != _CAB:
                    refuse(file, f"{len(words)} numbers; a line has latitude, longitude, occupancy and seconds", line)
                names = ("latitude", "longitude", "occupancy", "time")
                lat, lon, _, time = (read_number(file, line, name, word) for name, word in zip(names, words))
                yield time, line, lon, lat, None

    tracks = _tracks(path, lambda name: name.startswith("new_"), "files new_NAME.txt")
    return _trace(path, "cabspotting", [(node.removeprefix("new_"), file) for node, file in tracks], samples)


class _GpxReader(SumoReader):
    """The points of the tracks of one GPX file."""

    kind, root_tag = "GPX", "gpx"

    def __init__(self, path: str | Path):
        super().__init__(path)
        self.tracks: list[tuple[str, list[_Sample]]] = []  # (name, points)
        self.untimed = 0  # points without a time since the last one with a time
        self.left_out = 0  # of those at the ends of tracks
        self.point: tuple[int, float, float] | None = None
        self.time: float | None = None
        self.height: float | None = None
        self.text: list[str] = []
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text.append

    def root(self, tag: str, _: list[str]) -> None:
        if tag != "gpx":
            refuse(self.path, f"the root element is <{tag}>; GPX has <gpx>", self.line)
        self.parser.StartElementHandler = self.element

    def element(self, tag: str, attributes: list[str]) -> None:
        self.text.clear()
        if tag == "trk":
            self.tracks.append(("", []))
        elif tag == "trkpt":
            given = dict(zip(attributes[::2], attributes[1::2]))
            lon, lat = (read_number(self.path, self.line, name, given.get(name, "")) for name in ("lon", "lat"))
            self.point, self.time, self.height = (self.line, lon, lat), None, None

    def end(self, tag: str) -> None:
        """Take the time and the height of a point, the end of a point, and the name and the end of a track."""
        if tag == "trk":
            self.left_out, self.untimed = self.left_out + self.untimed, 0
        elif tag == "name" and self.tracks and not self.tracks[-1][1]:
            self.tracks[-1] = " ".join("".join(self.text).split()), []
        if not self.point:
            return
        if tag == "time":
            self.time = seconds(Path(self.path), self.point[0], "".join(self.text))
        elif tag == "ele":
            self.height = read_number(self.path, self.point[0], "ele", "".join(self.text).strip())
        elif tag == "trkpt":
            self.take(*self.point)
            self.point = None

    def take(self, line: int, lon: float, lat: float) -> None:
        """Take a point. Those without a time at both ends of a track are left out."""
        if not self.tracks:
            refuse(self.path, "a <trkpt> stands outside of a <trk>", line)
        samples = self.tracks[-1][1]
        if self.time is None:
            self.untimed += 1
            return
        if self.untimed and samples:
            refuse(self.path, "a point within a track has no <time>, and is before this one", line)
        self.left_out, self.untimed = self.left_out + self.untimed, 0
        samples.append((self.time, line, lon, lat, self.height))

    def held(self) -> int:
        return sum(len(samples) for _, samples in self.tracks)


def read_gpx(path: str | Path) -> Trace:
    """Read the tracks of GPX files (version 1.1): the points ``<trkpt lat= lon=>`` with their ``<time>``.

    Waypoints and routes have no times and are left out, and so are points without a time at the ends of a track. The
    tracks of a file follow one another and are of one node; if they overlap in time, each is a node with the name of
    the track. A height is ``<ele>``.

    Raises:
      UserError: for a file that is no GPX, a point without a time within a track, or places that are not on the globe.
    """
    columns = Columns(path, geographic=True)
    for node, file in trace_files(path):
        columns.path = file
        reader = _GpxReader(file)
        reader.read()
        if reader.left_out and not reader.held():
            refuse(file, "no point of its tracks has a <time>")
        if reader.left_out:
            columns.notes.append(f"points without a time at the ends of tracks are left out: {reader.left_out:,}")
        for name, samples in _nodes(node, [track for track in reader.tracks if track[1]]):
            for time, line, lon, lat, height in samples:
                columns.add(line, name, time, lon, lat, z=height)
    columns.path = path
    return columns.trace("gpx")


def _nodes(node: str, tracks: list[tuple[str, list[_Sample]]]) -> list[tuple[str, list[_Sample]]]:
    """Return (name, points by time) of each node of a file."""
    tracks = [(name, sorted(samples, key=lambda sample: sample[:2])) for name, samples in tracks]
    tracks.sort(key=lambda track: track[1][0][0])
    follow = all(before[1][-1][0] <= after[1][0][0] for before, after in pairwise(tracks))
    if follow:
        return [(node, [sample for _, samples in tracks for sample in samples])]
    names = [name for name, _ in tracks]
    own = all(names) and len(set(names)) == len(names)
    return [(name if own else f"{node} {k}", samples) for k, (name, samples) in enumerate(tracks, 1)]


def _sign(mark: str, text: str) -> str:
    return f"the text {mark!r}" if mark in text[:_HEADING] else ""


TRACE_FORMATS.register("geolife", doc="GeoLife's .plt: latitude,longitude,0,feet,days,date,time.")(
    TraceFormat(read_geolife, (".plt",), partial(_sign, "Geolife trajectory"), folders=True)
)
TRACE_FORMATS.register("cabspotting", doc="Lines of latitude longitude occupancy seconds, the latest first.")(
    TraceFormat(read_cabspotting, folders=True)
)
TRACE_FORMATS.register("gpx", doc="GPX 1.1: tracks of points with times.")(
    TraceFormat(read_gpx, (".gpx",), partial(_sign, "<gpx"), folders=True)
)
