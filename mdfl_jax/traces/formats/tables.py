"""Reads tables: places by id and time, in text or Parquet, and contact lists."""

import csv
import itertools
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.tables import is_number, marks_of
from mdfl_jax.traces.reading import (
    MOST_CLIENTS,
    TRACE_FORMATS,
    Columns,
    TraceFormat,
    check_count,
    date_seconds,
    files_of,
    first_line,
    lines_of,
    number,
    opened,
    parse_whole,
    wrong,
)
from mdfl_jax.traces.trace import Contacts, Trace

PLANE = ("time", "id", "x", "y")
GLOBE = ("time", "id", "lon", "lat")
BY_ROUND = ("round", "i", "j")
BY_TIME = ("start", "end", "i", "j")
NAMES: Mapping[str, Collection[str]] = {
    "time": ("timestamp", "timestep", "timestep_time", "datetime", "date_time", "date time", "t", "seconds", "utc"),
    "id": ("vehicle_id", "vehicle", "node_id", "node", "taxi_id", "taxi", "user_id", "user", "name", "trackid"),
    "x": ("vehicle_x", "x_m"),
    "y": ("vehicle_y", "y_m"),
    "lon": ("longitude", "lng", "long"),
    "lat": ("latitude",),
    "type": ("vehicle_type",),
    "z": ("vehicle_z", "z_m"),
}
"""What tools call the columns of a table of places, in lower case. A type and a height need not be there."""
_ROLE = {name: role for role, names in NAMES.items() for name in (role, *names)}


def is_header(row: Sequence[str]) -> bool:
    """Tell whether a row names columns: none of its fields is a number or a date."""
    return not any(is_number(cell) or date_seconds(cell) is not None for cell in row)


def header_of(row: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a header row, in lower case."""
    return tuple(name.strip().lower() for name in row)


def _lines(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a file as (line, cells). Blank lines and lines that begin with # are skipped.

    Raises:
      UserError: where a row has more or fewer cells than the first one.
    """
    with opened(path) as stream:
        lines = lines_of(path, stream)
        before = list[str]()
        for text in lines:
            before.append(text)
            if text.strip() and not text.startswith("#"):
                break
        mark = marks_of(before[-1:])[0] if before else ","
        rows, width = csv.reader(itertools.chain(before, lines), delimiter=mark, skipinitialspace=True), 0
        try:
            for row in rows:
                if not row or row[0].startswith("#"):
                    continue
                width = width or len(row)
                if len(row) != width:
                    wrong(path, f"{len(row)} columns where the first line has {width}", rows.line_num)
                yield rows.line_num, row
        except csv.Error as error:
            wrong(path, f"it is not a table ({error})", rows.line_num)


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

    def find(self, line: int, row: Sequence[str]) -> tuple[dict[str, int], bool]:
        """Return the index of the column of each role, and whether the row is a header, from the first row.

        Raises:
          UserError: if the columns are not known, or not which of them they are.
        """
        if self.named:
            if len(self.named) != len(row):
                self._refuse(f"trace.columns names {len(self.named)} columns, and the file has {len(row)}", line)
            self.why = "as trace.columns says"
            return self._by_name(line, self.named), is_header(row)
        if is_header(row):
            self.why = "by the header"
            return self._by_name(line, header_of(row)), True
        self._refuse("its first line is no header", line)

    def _by_name(self, line: int, names: Sequence[str]) -> dict[str, int]:
        places: dict[str, list[int]] = {}
        for k, name in enumerate(names):
            if role := _ROLE.get(name.strip().lower()):
                places.setdefault(role, []).append(k)
        for role, found in places.items():
            exact = [k for k in found if names[k].strip().lower() == role]
            places[role] = exact if len(exact) == 1 else found
        layouts = {None: (PLANE, GLOBE), True: (GLOBE,), False: (PLANE,)}[self.geographic]
        needed = [tuple(role for role in layout if role != "id" or not self.node) for layout in layouts]
        fitting = [layout for layout, roles in zip(layouts, needed) if places.keys() >= {*roles}]
        wanted = " or ".join(map(",".join, needed))
        if not fitting:
            self._refuse(f"columns {','.join(names)}; they must be {wanted}", line)
        if len(fitting) > 1:
            self._refuse("it has x and y, and lon and lat", line)
        roles = [role for role in (*fitting[0], "type", "z") if role in places]
        if twice := [role for role in roles if len(places[role]) > 1]:
            both = " and ".join(names[k] for k in places[twice[0]])
            self._refuse(f"{both} may both be the {twice[0]}", line)
        return {role: places[role][0] for role in roles}

    def _refuse(self, why: str, line: int) -> NoReturn:
        wrong(self.path, f"{why}; trace.columns names them in the order of the file, such as id,time,lon,lat", line)


def _said(at: Mapping[str, int], why: str) -> str:
    """Say which column was read as what, and why."""
    return f"{', '.join(f'{name} is column {k + 1}' for name, k in at.items())} ({why})"


def read_csv(path: str | Path, geographic: bool | None = None, named: Sequence[str] = ()) -> Trace:
    """Read a table of places: time, id, x and y in metres or longitude and latitude, and perhaps z in metres.

    Columns are divided by commas, semicolons or tabs. A header names them in any order, by one of `NAMES`, and may name
    further ones. Times are seconds, or dates with times (ISO 8601). Rows may be sorted by time or by id, but the times
    of each id must grow. The files of a folder are one table; a file there without a column of ids is a node with its
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
    columns, why = Columns(path), ""
    is_folder = Path(path).is_dir()
    for node, file in files_of(path):
        found = _Places(file, geographic, named, node if is_folder else "")
        columns.path = file
        at = _add_table(columns, found, is_first=not why)
        why = why or (_said(at, found.why) if at else "")
    columns.path = path
    return columns.trace("csv", why=why)


def _add_table(columns: Columns, found: _Places, is_first: bool) -> dict[str, int]:
    """Add the samples of a file, and return the index of the column of each role; {} for a file without rows.

    Raises:
      UserError: as `read_csv`.
    """
    rows = _lines(found.path)
    if (first := next(rows, None)) is None:
        return {}
    at, is_named = found.find(*first)
    samples = rows if is_named else itertools.chain([first], rows)
    layout = GLOBE if "lon" in at else PLANE
    if not is_first and columns.geographic != (layout is GLOBE):
        wrong(found.path, "its places are in another unit than those of the files before it", first[0])
    columns.geographic = layout is GLOBE
    time_at, x_at, y_at = (at[role] for role in layout if role != "id")
    id_at, type_at, z_at = at.get("id"), at.get("type"), at.get("z")
    read: Callable[[str], float] | None = None
    for line, row in samples:
        if read is None:
            read = float if date_seconds(row[time_at]) is None else _seconds
        name = found.node if id_at is None else row[id_at]
        kind = "" if type_at is None else row[type_at]
        try:
            z = None if z_at is None else float(row[z_at])
            columns.add(line, name, read(row[time_at]), float(row[x_at]), float(row[y_at]), kind, z)
        except (ValueError, OverflowError) as error:
            if isinstance(error, UserError):
                raise
            when = row[time_at]
            if read is _seconds and date_seconds(when) is None:
                wrong(found.path, f"time is {when!r}; it must be a date with a time, as in the first line", line)
            for role in at:
                if role not in ("id", "type") and (role != "time" or read is float):
                    number(found.path, line, role, row[at[role]])
            raise
    return at


def _seconds(text: str) -> float:
    found = date_seconds(text)
    if found is None:
        raise ValueError(text)
    return found


def read_parquet(path: str | Path, named: Sequence[str] = ()) -> Trace:
    """Read a table of places of Parquet, as SUMO writes it, with pandas; its columns are called as those of `read_csv`.

    Raises:
      UserError: if pandas cannot read it, for which it needs pyarrow; otherwise as `read_csv`.
    """
    with opened(path):
        pass
    try:
        import pandas as pd

        table = pd.read_parquet(path)
    except ImportError:
        wrong(path, "reading Parquet needs the package pyarrow: pip install pyarrow")
    except Exception as error:  # whatever the readers make of damaged bytes
        wrong(path, f"it is no table of Parquet ({' '.join(str(error).split())[:200]})")
    found = _Places(path, None, named)
    at, _ = found.find(0, [str(name) for name in table.columns])
    held = {role: table.iloc[:, k] for role, k in at.items()}
    if held["time"].dtype.kind == "M":
        held["time"] = (held["time"] - pd.Timestamp(0, tz=held["time"].dt.tz)) / pd.Timedelta(seconds=1)
    held |= {role: held[role].astype(str) for role in ("id", "type") if role in held}
    columns = Columns(path, "lon" in at)
    for line, row in enumerate(zip(*held.values()), 1):
        has = dict(zip(at, row))
        name, kind = has.pop("id"), has.pop("type", "")
        try:
            time, x, y, *height = map(float, has.values())
            columns.add(line, name, time, x, y, kind, height[0] if height else None)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, UserError):
                raise
            wrong(path, f"row {line} has {', '.join(map(str, row))} as {', '.join(at)}")
    return columns.trace("parquet", why=_said(at, found.why))


def read_contacts(path: str | Path, named: Sequence[str] = ()) -> Contacts:
    """Read a contact list, plain or gzip: ``round,i,j`` or, in seconds, ``start,end,i,j``.

    Clients are whole numbers from 0. A header may name the columns in any order, and may name further columns.

    Args:
      path: the file.
      named: the names of the columns in the order of the file; (): those of the header.

    Raises:
      UserError: for other columns, for a file without contacts, a round or client that is not a whole number from 0, a
        client that is not below `MOST_CLIENTS`, a contact of a client with itself, or one that ends before it starts.
    """
    start, end, pair = array("d"), array("d"), array("i")
    at: dict[str, int] = {}
    in_rounds, why = False, ""
    for line, row in _lines(path):
        if not at:
            at, why = _columns_of(path, line, row, named)
            in_rounds = "round" in at
            if is_header(row):
                continue
        i, j = (parse_whole(path, line, name, row[at[name]], MOST_CLIENTS) for name in "ij")
        if in_rounds:
            first = float(parse_whole(path, line, "round", row[at["round"]]))
            last = first + 1
        else:
            first, last = (number(path, line, name, row[at[name]]) for name in ("start", "end"))
        check_count(path, len(start), line, "contacts")
        if last < first:
            wrong(path, f"the contact starts at {first:g} and ends at {last:g}, before that", line)
        if i == j:
            wrong(path, f"client {i} is in contact with itself", line)
        start.append(first)
        end.append(last)
        pair.extend((i, j))
    if not start:
        wrong(path, "it holds no contacts")
    pairs = np.frombuffer(pair, np.int32).reshape(-1, 2)
    return Contacts(np.frombuffer(start), np.frombuffer(end), pairs, in_rounds, str(path), why=why)


def _columns_of(path: str | Path, line: int, row: Sequence[str], named: Sequence[str]) -> tuple[dict[str, int], str]:
    """Return the index of each column of a contact list, and why they are so, from its first row."""
    layouts, remedy = (BY_ROUND, BY_TIME), "trace.columns names them in the order of the file, such as round,i,j"
    if named and len(named) != len(row):
        wrong(path, f"trace.columns names {len(named)} columns, and the file has {len(row)}; {remedy}", line)
    if not named and not is_header(row):
        wrong(path, f"its first line is no header; {remedy}", line)
    names, why = (tuple(named), "as trace.columns says") if named else (header_of(row), "by the header")
    fitting = [one for one in layouts if {*one} <= {*names}]
    if not fitting:
        wanted = " or ".join(map(",".join, layouts))
        wrong(path, f"columns {','.join(names)}; they must be {wanted}; {remedy}", line)
    at = {name: names.index(name) for name in fitting[0]}
    return at, _said(at, why)


def header_in(text: str) -> tuple[str, ...]:
    """Return the names of the header with which a text begins, in lower case; () if it is no table with a header."""
    line = first_line(text)
    row = next(csv.reader([line], delimiter=marks_of([line])[0], skipinitialspace=True), [])
    return header_of(row) if len(row) > 1 and line[0] not in "<$" and is_header(row) else ()


def _places_sign(text: str) -> str:
    header = {*header_in(text)}
    return "a header of columns" if header and not {"i", "j"} <= header else ""


def _contacts_sign(text: str) -> str:
    return "a header with i and j" if {"i", "j"} <= {*header_in(text)} else ""


TRACE_FORMATS.register("csv", doc="A table of time, id and x, y in metres or lon, lat in degrees.")(
    TraceFormat(read_csv, sign=_places_sign, folders=True, takes_columns=True)
)
TRACE_FORMATS.register("csv_geo", doc="A table of time, id, lon, lat in degrees.")(
    TraceFormat(partial(read_csv, geographic=True), folders=True, takes_columns=True)
)
TRACE_FORMATS.register("contacts", doc="Rows of round,i,j or of start,end,i,j: who is in contact when.")(
    TraceFormat(read_contacts, sign=_contacts_sign, takes_columns=True)
)
TRACE_FORMATS.register("parquet", doc="The same as csv in a file of Parquet, as SUMO writes it.")(
    TraceFormat(
        read_parquet, (".parquet",), lambda text: "the text PAR1" if text.startswith("PAR1") else "", takes_columns=True
    )
)
