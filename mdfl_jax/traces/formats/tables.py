"""Reads tables: places by id and time, and contact lists."""

import itertools
import re
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbering import numbered_clients
from mdfl_jax.core.tables import Rows, is_date, is_number
from mdfl_jax.storage.given import at_line
from mdfl_jax.traces.reading import (
    MOST_CLIENTS,
    TRACE_FORMATS,
    Columns,
    TraceFormat,
    check_count,
    first_line,
    opened,
    parse_whole,
    read_number,
    rows_of,
    seconds,
    trace_files,
    wrong,
)
from mdfl_jax.traces.trace import Contacts, Trace

PLANE = ("time", "id", "x", "y")
GLOBE = ("time", "id", "lon", "lat")
BY_ROUND = ("round", "i", "j")
BY_TIME = ("start", "end", "i", "j")
BY_STEP = ("time", "i", "j")
UNITS = {"timestampms": 1e3, "timems": 1e3, "tms": 1e3, "timemillisecond": 1e3, "timeus": 1e6}  # in a second
NAMES: Mapping[str, Collection[str]] = {
    "time": (
        *("timestamp", "timestep", "datetime", "t", "seconds", "utc", "times", "timesec"),
        *("basedatetime", "datetimeutc", "timestamputc", *UNITS),
    ),
    "id": (
        *("vehicleid", "vehicle", "nodeid", "node", "taxiid", "taxi", "userid", "user", "name", "trackid", "mmsi"),
        *("individuallocalidentifier", "individualid", "personid", "agentid", "droneid"),
    ),
    "x": ("vehiclex", "xm", "posx", "easting"),
    "y": ("vehicley", "ym", "posy", "northing"),
    "lon": ("longitude", "lng", "long", "locationlong", "lonx"),
    "lat": ("latitude", "locationlat", "laty"),
    "type": ("vehicletype",),
    "z": ("vehiclez", "zm", "posz"),
    "i": ("id1", "node1", "user1", "usera", "person1", "i1"),
    "j": ("id2", "node2", "user2", "userb", "person2", "i2"),
    "start": ("begin", "starttime"),
    "end": ("stop", "endtime"),
    "round": (),
}
"""What tools call the columns of traces (AIS, Movebank, SUMO, drones, badges), in lower case, letters and digits only.

A type and a height need not be there.
"""
FRAMES = ("frame", "frameid", "framenumber", "frameidx")  # pictures of a camera, whose rate only its owner knows
_ROLE = {name: role for role, names in NAMES.items() for name in (role, *names)}
_OF_PLACES = ("time", "id", "x", "y", "lon", "lat", "type", "z")
_LINES = 100  # in which a header is looked for
_WIDEST = 12  # columns of a table whose names are proposed
_REMEDY = "trace.columns names them in the order of the file, such as"


def _bare(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def role_of(name: str) -> str:
    """Return what a column of this name is, a key of `NAMES`; "" for another name.

    >>> [role_of(name) for name in ("MMSI", "location-long", "time (millisecond)", "Taxi_ID", "speed")]
    ['id', 'lon', 'time', 'id', '']
    """
    bare = _bare(name)
    return _ROLE.get(bare) or _ROLE.get(bare.removeprefix("timestep"), "")  # SUMO: timestep_time, timestep_vehicle_id


def _by_role(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the columns that may have each role; only the one that is called as the role, if there is one."""
    found = dict[str, list[int]]()
    for k, name in enumerate(names):
        if role := role_of(name):
            found.setdefault(role, []).append(k)
    exact = {role: [k for k in of if names[k].lower() == role] for role, of in found.items()}
    return {role: exact[role] if len(exact[role]) == 1 else of for role, of in found.items()}


def _twice(names: Sequence[str], at: Mapping[str, Sequence[int]]) -> str:
    """Say which columns may both have one role; "" if there are none."""
    both = ((role, " and ".join(names[k] for k in found)) for role, found in at.items() if len(found) > 1)
    return next((f"{which} may both be the {role}" for role, which in both), "")


def _unit_of(names: Sequence[str], at: Mapping[str, int]) -> float:
    """Return how many units of the column of times are a second."""
    return UNITS.get(_bare(names[at["time"]]), 1.0) if "time" in at else 1.0


class _Places:
    """Finds the columns of a table of places: which are time, id and the two of the place.

    Args:
      path: the file, for errors.
      geographic: whether places are degrees; None: as the names of the columns say.
      named: the names of the columns in the order of the file, in place of a header.
      node: the name of the node of a file without a column of ids; "" where there must be one.
    """

    def __init__(self, path: str | Path, geographic: bool | None, named: Sequence[str] = (), node: str = ""):
        self.path, self.geographic, self.named, self.node = path, geographic, named, node
        self.why = ""

    def find(self, line: int, header: Sequence[str], width: int) -> dict[str, int]:
        """Return the index of the column of each role.

        Args:
          line: the line of the first row.
          header: the names of the columns; () for a file without a header.
          width: how many columns there are.

        Raises:
          UserError: if the columns are not known, or not which of them they are.
        """
        names = _names_of(self.path, self.named, header, line, width)
        self.why = "as trace.columns says" if self.named else "by the header"
        return self._by_name(line, names)

    def _by_name(self, line: int, names: Sequence[str]) -> dict[str, int]:
        places = {role: found for role, found in _by_role(names).items() if role in _OF_PLACES}
        layouts = {None: (PLANE, GLOBE), True: (GLOBE,), False: (PLANE,)}[self.geographic]
        needed = [tuple(role for role in layout if role != "id" or not self.node) for layout in layouts]
        fitting = [layout for layout, roles in zip(layouts, needed) if places.keys() >= {*roles}]
        wanted = " or ".join(map(",".join, needed))
        if not fitting:
            frames = [name for name in names if "time" not in places and _bare(name) in FRAMES]
            if frames:
                self._refuse(f"column {frames[0]} counts frames; a column time must have their seconds", line)
            least = min(({*roles} - {*places} for roles in needed), key=len)
            lacks = f", of which {', '.join(sorted(least))} is missing" if len(least) < min(map(len, needed)) else ""
            self._refuse(f"columns {','.join(names)}; they must be {wanted}{lacks}", line)
        if len(fitting) > 1:
            self._refuse("it has x and y, and lon and lat", line)
        at = {role: places[role] for role in (*fitting[0], "type", "z") if role in places}
        if twice := _twice(names, at):
            self._refuse(twice, line)
        return {role: found[0] for role, found in at.items()}

    def _refuse(self, why: str, line: int) -> NoReturn:
        wrong(self.path, f"{why}; {_REMEDY} id,time,lon,lat", line)


def _names_of(path: str | Path, named: Sequence[str], header: Sequence[str], line: int, width: int) -> Sequence[str]:
    """Return the names of the columns of a table, those given or those of its header.

    Raises:
      UserError: if there are none, or not as many as columns.
    """
    example = "round,i,j" if "i" in named else "id,time,lon,lat"
    if named and len(named) != width:
        wrong(path, f"trace.columns names {len(named)} columns, and the file has {width}; {_REMEDY} {example}", line)
    if not named and not header:
        wrong(path, f"its first line is no header; {_REMEDY} id,time,lon,lat or round,i,j", line)
    return named or header


def _said(at: Mapping[str, int], why: str) -> str:
    """Say which column was read as what, and why."""
    return f"{', '.join(f'{name} is column {k + 1}' for name, k in at.items())} ({why})"


def read_csv(path: str | Path, geographic: bool | None = None, named: Sequence[str] = ()) -> Trace:
    """Read a table of places: time, id, x and y in metres or longitude and latitude, and perhaps z in metres.

    The table is one of `mdfl_jax.core.tables.Rows`. A header names its columns in any order, by one of `NAMES`, and may
    name further ones. Times are seconds, or dates with times. Rows may be sorted by time or by id, but the times of
    each id must grow. The files of a folder are one table; a file there without a column of ids is a node with its
    name.

    Args:
      path: the file or the folder, plain or gzip.
      geographic: whether places are degrees; None: as the names of the columns say.
      named: the names of the columns in the order of the file; (): those of the header.

    Returns:
      The trace, in the unit of the file.

    Raises:
      UserError: for columns that are not known or named twice, a field that is not a finite number, times of an id that
        do not grow, a sample given twice, or a longitude or latitude out of range.
    """
    columns, why, notes = Columns(path), "", list[str]()
    is_folder = Path(path).is_dir()
    for node, file in trace_files(path):
        found = _Places(file, geographic, named, node if is_folder else "")
        columns.path = file
        with opened(file) as stream:
            rows = rows_of(file, stream, notes)
            at = _add_table(columns, found, rows, is_first=not why)
            notes += rows.notes
        why = why or (_said(at, found.why) if at else "")
    columns.path = path
    columns.notes += dict.fromkeys(notes)
    return columns.trace("csv", why=why)


def _add_table(columns: Columns, found: _Places, rows: Rows, is_first: bool) -> dict[str, int]:
    """Add the samples of a file, and return the index of the column of each role; {} for a file without rows.

    Raises:
      UserError: as `read_csv`.
    """
    samples = iter(rows)
    if (first := next(samples, None)) is None:
        if rows.header:
            found.find(1, rows.header, len(rows.header))
        return {}
    at = found.find(first[0] - bool(rows.header and not found.named), rows.header, len(first[1]))
    layout = GLOBE if "lon" in at else PLANE
    if not is_first and columns.geographic != (layout is GLOBE):
        wrong(found.path, "its places are in another unit than those of the files before it", first[0])
    columns.geographic = layout is GLOBE
    time_at, x_at, y_at = (at[role] for role in layout if role != "id")
    id_at, type_at, z_at = at.get("id"), at.get("type"), at.get("z")
    unit = _unit_of(found.named or rows.header, at)
    has_dates = is_date(first[1][time_at])
    for line, row in itertools.chain([first], samples):
        name = found.node if id_at is None else row[id_at]
        kind = "" if type_at is None else row[type_at]
        try:
            z = None if z_at is None else float(row[z_at])
            if has_dates:
                time = seconds(found.path, line, row[time_at])
            elif unit == 1:
                time = float(row[time_at])
            else:
                time = read_number(found.path, line, "time", row[time_at]) / unit
            columns.add(line, name, time, float(row[x_at]), float(row[y_at]), kind, z)
        except (ValueError, OverflowError) as error:
            if isinstance(error, UserError):
                raise
            for role in at:
                if role not in ("id", "type") and (role != "time" or not has_dates):
                    read_number(found.path, line, role, row[at[role]])
            raise
    return at


def read_contacts(path: str | Path, named: Sequence[str] = ()) -> Contacts:
    """Read a contact list, plain or gzip: ``round,i,j``, or in seconds or dates ``start,end,i,j`` or ``time,i,j``.

    The table is one of `mdfl_jax.core.tables.Rows`. A header may name the columns in any order, by one of `NAMES`, and
    may name further columns. Clients are whole numbers; if there is no client 0, they are numbered in ascending order.
    A contact of ``time,i,j`` holds for the shortest step between two times. A second client below 0 stands for nobody,
    as in scans that met nobody of the study.

    Args:
      path: the file.
      named: the names of the columns in the order of the file; (): those of the header.

    Raises:
      UserError: for other columns, for a file without contacts, a round or client that is not a whole number, a client
        that is not below `MOST_CLIENTS`, a contact of a client with itself, or one that ends before it starts.
    """
    start, end, pair, nobody, notes = array("d"), array("d"), array("q"), 0, list[str]()
    at, unit = dict[str, int](), 1.0
    with opened(path) as stream:
        rows = rows_of(path, stream, notes)
        if rows.header:
            at, unit = _columns_of(path, 1, named, rows.header, len(named or rows.header))
        for line, row in rows:
            if not at:
                at, unit = _columns_of(path, line, named, (), len(row))
            if row[at["j"]].lstrip().startswith("-") and row[at["j"]].strip()[1:].isdecimal():
                nobody += 1
                continue
            i, j = (parse_whole(path, line, name, row[at[name]], MOST_CLIENTS) for name in "ij")
            if "round" in at:
                first = float(parse_whole(path, line, "round", row[at["round"]]))
                last = first + 1
            else:
                first, last = (
                    _instant(path, line, name, row[at[name]], unit)
                    for name in (BY_TIME[:2] if "end" in at else ("time",) * 2)
                )
            check_count(path, len(start), line, "contacts")
            if last < first:
                wrong(path, f"the contact starts at {first:g} and ends at {last:g}, before that", line)
            if i == j:
                wrong(path, f"client {i} is in contact with itself", line)
            start.append(first)
            end.append(last)
            pair.extend((i, j))
        notes += rows.notes
    if not start:
        wrong(path, "it holds no contacts")
    if nobody:
        notes.append(f"{nobody:,} rows whose j is below 0 are left out: nobody was met")
    starts, ends, step = np.frombuffer(start), np.frombuffer(end), 0.0
    if "time" in at:
        step = _step(path, starts)
        ends = starts + step
    pairs, known = numbered_clients(np.frombuffer(pair, np.int64).reshape(-1, 2), notes)
    why = "; ".join([_said(at, "as trace.columns says" if named else "by the header"), *dict.fromkeys(notes)])
    in_rounds = "round" in at
    ids = tuple(map(str, known))
    return Contacts(starts, ends, pairs.astype(np.int32), in_rounds, str(path), ids, why=why, step=step)


def _instant(path: str | Path, line: int, name: str, text: str, unit: float) -> float:
    if is_number(text) or not is_date(text):
        return read_number(path, line, name, text) / unit
    return seconds(path, line, text, name)


def _step(path: str | Path, times: np.ndarray) -> float:
    """Return the shortest step between two times of a list of contacts, for which each of them holds."""
    known = np.unique(times)
    if len(known) < 2:
        wrong(path, "all contacts have one time; columns start and end, or round, must say how long they last")
    return float(np.diff(known).min())


def _columns_of(
    path: str | Path, line: int, named: Sequence[str], header: Sequence[str], width: int
) -> tuple[dict[str, int], float]:
    """Return the index of each column of a contact list, and how many units of its times are a second."""
    names = _names_of(path, named, header, line, width)
    known = _by_role(names)
    fitting = [one for one in (BY_TIME, BY_ROUND, BY_STEP) if {*one} <= known.keys()]
    if not fitting:
        wanted = " or ".join(map(",".join, (BY_ROUND, BY_TIME, BY_STEP)))
        wrong(path, f"columns {','.join(names)}; they must be {wanted}; {_REMEDY} round,i,j", line)
    at = {role: known[role] for role in fitting[0]}
    if twice := _twice(names, at):
        wrong(path, f"{twice}; {_REMEDY} round,i,j", line)
    found = {role: columns[0] for role, columns in at.items()}
    return found, _unit_of(names, found)


def header_in(text: str) -> tuple[str, ...]:
    """Return the names of the header with which a text begins, in lower case; () if it is no table with a header."""
    if not text.strip() or first_line(text)[:1] in ("<", "$", "{"):
        return ()
    try:
        rows = Rows(text.splitlines()[:_LINES], at_line)
    except UserError:
        return ()
    known = sum(map(bool, map(role_of, rows.header)))  # a sentence has blanks, too
    return tuple(map(str.lower, rows.header)) if len(rows.header) > 1 and (rows.mark != " " or known > 1) else ()


def likely_columns(text: str) -> list[str]:
    """Return what the field trace.columns may be for a table without a header; [] if its cells do not tell.

    Whole numbers alone are contacts, whose times grow or whose starts are not after their ends. Else a column of dates,
    or the first that grows, is the time; a column of names, or the first of whole numbers, is the id; and the first two
    others, those with decimals before the rest, are the place.

    >>> likely_columns("1,2008-02-02 15:36:08,116.5,39.9"), likely_columns("v1 0 8.5 2.5 7.5 6.5")
    (['id,time,lon,lat'], ['id,time,lon,lat,c5,c6', 'id,time,lat,lon,c5,c6', 'id,time,x,y,c5,c6'])
    """
    try:
        columns = [*zip(*(row for _, row in Rows(text.splitlines()[:_LINES], at_line, has_header=False)))]
    except UserError:  # two marks may divide it, or its rows differ
        return []
    if len(columns) > _WIDEST:
        return []
    every = range(len(columns))
    numbers = [list(map(float, column)) if all(map(is_number, column)) else [] for column in columns]
    whole = [k for k in every if all(map(str.isdecimal, columns[k]))]
    grows = [k for k in every if numbers[k] and numbers[k] == sorted(numbers[k])]
    if len(whole) == len(columns) > 2:
        by_step = {0: "time,i,j", 2: "i,j,time"} if len(columns) == 3 else {}
        spans = [k for k in (0, 2) if k + 1 < len(columns) > 3 and all(a <= b for a, b in zip(*numbers[k : k + 2]))]
        by_time = [_named({k: "start", k + 1: "end", 2 - k: "i", 3 - k: "j"}, len(columns)) for k in spans]
        return [by_step[k] for k in grows if k in by_step] + by_time
    dates = [k for k in every if all(map(is_date, columns[k]))]
    time = [*dates, *grows][:1]
    who = [k for k in (*(k for k in every if not numbers[k]), *whole) if k not in time + dates][:1]
    place = sorted((k for k in every if numbers[k] and k not in time + who), key=lambda k: k in whole)[:2]
    if not (time and who and len(place) == 2):
        return []
    far_x, far_y = (max(map(abs, numbers[k])) for k in place)
    pairs = [("lon", "lat")] * (far_x <= 180 and far_y <= 90) + [("lat", "lon")] * (far_x <= 90 and far_y <= 180)
    pairs += [("x", "y")] * (not dates or not pairs)
    known = {time[0]: "time", who[0]: "id"}
    return [_named(known | dict(zip(place, pair)), len(columns)) for pair in pairs]


def _named(roles: Mapping[int, str], count: int) -> str:
    """Return names of columns, with others for those that have no role."""
    return ",".join(roles.get(k, f"c{k + 1}") for k in range(count))


def has_contacts(names: Iterable[str]) -> bool:
    """Tell whether names of columns are those of a contact list."""
    return {"i", "j"} <= {*map(role_of, names)}


def _places_sign(text: str) -> str:
    header = header_in(text)
    return "a header of columns" if header and not has_contacts(header) else ""


def _contacts_sign(text: str) -> str:
    return "a header with i and j" if has_contacts(header_in(text)) else ""


TRACE_FORMATS.register("csv", doc="A table of time, id and x, y in metres or lon, lat in degrees.")(
    TraceFormat(read_csv, sign=_places_sign, folders=True, takes_columns=True)
)
TRACE_FORMATS.register("csv_geo", doc="A table of time, id, lon, lat in degrees.")(
    TraceFormat(partial(read_csv, geographic=True), folders=True, takes_columns=True)
)
TRACE_FORMATS.register("contacts", doc="Rows of round,i,j or of start,end,i,j: who is in contact when.")(
    TraceFormat(read_contacts, sign=_contacts_sign, takes_columns=True)
)
