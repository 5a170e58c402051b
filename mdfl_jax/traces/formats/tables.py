"""Reads tables: places by id and time, in text or Parquet, and contact lists."""

import csv
import itertools
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import is_number
from mdfl_jax.core.tables import marks_of
from mdfl_jax.traces.reading import (
    MOST_CLIENTS,
    TRACE_FORMATS,
    Columns,
    TraceFormat,
    check_count,
    date_seconds,
    first_line,
    lines_of,
    number,
    opened,
    whole,
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
}
"""What tools call the columns of a table of places, in lower case."""
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


def _rows(path: str | Path, layouts: Sequence[tuple[str, ...]]) -> Iterator[tuple[int, tuple[str, ...], list[str]]]:
    """Yield the rows of a file as (line, layout, fields in the layout's order).

    A header may name the columns in any order, and may name further columns. Without a header the columns are those of
    the first layout that has as many.
    """
    layout: tuple[str, ...] = ()
    take: list[int] = []
    for line, row in _lines(path):
        if not layout:
            names = header_of(row) if is_header(row) else ()
            fitting = [one for one in layouts if (set(one) <= set(names) if names else len(one) == len(row))]
            if not fitting:
                what = f"columns {','.join(names)}" if names else f"{len(row)} columns and no header"
                wrong(path, f"{what}; they must be {' or '.join(map(','.join, layouts))}", line)
            layout = fitting[0]
            take = [names.index(name) for name in layout] if names else list(range(len(row)))
            if names:
                continue
        yield line, layout, [row[k] for k in take]


class _Places:
    """Finds the columns of a table of places: which are time, id and the two of the place.

    Args:
      path: the file, for errors.
      geographic: whether places are degrees; None: as the names of the columns say.
      named: the names of the columns in the order of the file, in place of a header.
    """

    def __init__(self, path: str | Path, geographic: bool | None, named: Sequence[str] = ()):
        self.path, self.geographic, self.named = path, geographic, named
        self.why, self.guessed = "", False

    def find(self, line: int, row: Sequence[str]) -> tuple[tuple[str, ...], list[int], bool]:
        """Return (layout, the index of each of its columns, whether the row is a header), from the first row.

        Raises:
          UserError: if the columns are not known, or not which of them they are.
        """
        if self.named:
            if len(self.named) != len(row):
                self._refuse(f"trace.columns names {len(self.named)} columns, and the file has {len(row)}", line)
            self.why = "as trace.columns says"
            return *self._by_name(line, self.named), is_header(row)
        if is_header(row):
            self.why = "by the header"
            return *self._by_name(line, header_of(row)), True
        return *self._by_content(line, row), False

    def _by_name(self, line: int, names: Sequence[str]) -> tuple[tuple[str, ...], list[int]]:
        places: dict[str, list[int]] = {}
        for k, name in enumerate(names):
            if role := _ROLE.get(name.strip().lower()):
                places.setdefault(role, []).append(k)
        for role, found in places.items():
            exact = [k for k in found if names[k].strip().lower() == role]
            places[role] = exact if len(exact) == 1 else found
        layouts = {None: (PLANE, GLOBE), True: (GLOBE,), False: (PLANE,)}[self.geographic]
        fitting = [layout for layout in layouts if places.keys() >= {*layout}]
        wanted = " or ".join(map(",".join, layouts))
        if not fitting:
            self._refuse(f"columns {','.join(names)}; they must be {wanted}", line)
        if len(fitting) > 1:
            self._refuse("it has x and y, and lon and lat", line)
        if twice := [role for role in fitting[0] if len(places[role]) > 1]:
            both = " and ".join(names[k] for k in places[twice[0]])
            self._refuse(f"{both} may both be the {twice[0]}", line)
        return fitting[0], [places[role][0] for role in fitting[0]]

    def _by_content(self, line: int, row: Sequence[str]) -> tuple[tuple[str, ...], list[int]]:
        """Find the columns of a table without a header: time,id,x,y, or where a column has dates, that is the time."""
        if len(row) != len(PLANE):
            self._refuse(f"{len(row)} columns and no header", line)
        dates = [k for k, cell in enumerate(row) if date_seconds(cell) is not None]
        self.guessed, self.why = not dates, "in the usual order: there is no header"
        if not dates:
            return (GLOBE if self.geographic else PLANE), list(range(len(row)))
        if len(dates) > 1:
            self._refuse("two of its columns are dates", line)
        name, *place = (k for k in range(len(row)) if k != dates[0])
        self.why = f"column {dates[0] + 1} has dates, and there is no header"
        a, b = (abs(number(self.path, line, "a place", row[k])) for k in place)
        if self.geographic is False or (self.geographic is None and max(a, b) > 180):
            return PLANE, [dates[0], name, *place]
        if max(a, b) <= 90 or min(a, b) > 90:
            self._refuse(
                f"{row[place[0]]} and {row[place[1]]} may be longitude and latitude or latitude and longitude", line
            )
        return GLOBE, [dates[0], name, *(place if a > b else place[::-1])]

    def _refuse(self, why: str, line: int) -> NoReturn:
        wrong(self.path, f"{why}; trace.columns names them in the order of the file, such as id,time,lon,lat", line)


def read_csv(path: str | Path, geographic: bool | None = None, named: Sequence[str] = ()) -> Trace:
    """Read a table of places: time, id, and x and y in metres or longitude and latitude, projected about their mean.

    Columns are divided by commas, semicolons or tabs. A header names them in any order, by one of `NAMES`, and may name
    further ones. Times are seconds, or dates with times (ISO 8601). Without a header four columns are ``time,id,x,y``;
    or one has dates, and the others are id and place. Rows may be sorted by time or by id, but the times of each id
    must grow.

    Args:
      path: the file, plain or gzip.
      geographic: whether places are degrees. None decides by the header, and takes metres where there is no header.
      named: the names of the columns in the order of the file; (): those of the header.

    Returns:
      The trace, in metres.

    Raises:
      UserError: for columns that are not known or that may be read in two ways, a field that is not a finite number,
        times of an id that do not grow, a sample given twice, or a longitude or latitude out of range.
    """
    found, columns = _Places(path, geographic, named), Columns(path)
    layout: tuple[str, ...] = ()
    take, dated = list[int](), False
    for line, row in _lines(path):
        if not layout:
            layout, take, is_named = found.find(line, row)
            columns.geographic = layout is GLOBE
            if is_named:
                continue
        time, name, x, y = (row[k] for k in take)
        if not len(columns.time):
            dated = date_seconds(time) is not None
        try:
            columns.add(line, name, _seconds(time) if dated else float(time), float(x), float(y))
        except (ValueError, OverflowError) as error:
            if isinstance(error, UserError):
                raise
            for field, text in zip(layout, (time, name, x, y)):
                if field == "time" and dated:
                    wrong(path, f"time is {text!r}; it must be a date with a time, as in the first line", line)
                if field != "id":
                    number(path, line, field, text)
            raise
    if found.guessed and not named and _swapped_is_likelier(columns):
        said = "if its first two columns are time and id, nodes make longer steps than if they are id and time"
        wrong(path, f"{said}; trace.columns says it: time,id,x,y or id,time,x,y")
    order = ", ".join(f"{name} is column {k + 1}" for name, k in zip(layout, take))
    return columns.trace("csv", why=f"{order} ({found.why})")


def _seconds(text: str) -> float:
    found = date_seconds(text)
    if found is None:
        raise ValueError(text)
    return found


def _swapped_is_likelier(columns: Columns) -> bool:
    """Tell whether a table without a header is rather one of ``id,time,x,y`` than of ``time,id,x,y``.

    Nodes make small steps. If they are taken for instants and instants for nodes, the nodes leap from place to place.
    """
    try:
        ids = np.array([float(name) for name in columns.ids])
    except ValueError:
        return False
    time, node = np.frombuffer(columns.time), np.frombuffer(columns.node, np.int32)
    place = np.stack([np.frombuffer(columns.x, np.float32), np.frombuffer(columns.y, np.float32)], axis=1)
    if len(time) < 2:
        return False

    def way(of_node: np.ndarray, at: np.ndarray) -> tuple[float, int]:
        order = np.lexsort((at, of_node))
        same = of_node[order][1:] == of_node[order][:-1]
        steps = np.linalg.norm(np.diff(place[order].astype(float), axis=0), axis=1)[same]
        return float(steps.sum()), len(steps)

    (here, steps), (there, others) = way(node, time), way(time, ids[node])
    if not steps or not others:
        return others > steps and len(ids) > 2  # one instant only, with many nodes: rather one node
    return there / others < here / steps / 2


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
    layout, take, _ = found.find(0, [str(name) for name in table.columns])
    time, name, x, y = (table.iloc[:, k] for k in take)
    if time.dtype.kind == "M":
        time = (time - pd.Timestamp(0, tz=time.dt.tz)) / pd.Timedelta(seconds=1)
    columns = Columns(path, layout is GLOBE)
    for line, row in enumerate(zip(time, name.astype(str), x, y), 1):
        try:
            columns.add(line, row[1], float(row[0]), float(row[2]), float(row[3]))
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, UserError):
                raise
            wrong(path, f"row {line} has {', '.join(map(str, row))} as {', '.join(layout)}")
    return columns.trace("parquet", why=f"{', '.join(layout)} {found.why}")


def read_contacts(path: str | Path) -> Contacts:
    """Read a contact list, plain or gzip: ``round,i,j`` or, in seconds, ``start,end,i,j``.

    Clients are whole numbers from 0.

    Raises:
      UserError: for other columns, a file without contacts, a round or client that is not a whole number from 0, a
        client that is not below `MOST_CLIENTS`, a contact of a client with itself, or one that ends before it starts.
    """
    start, end, pair = array("d"), array("d"), array("i")
    in_rounds = False
    for line, layout, fields in _rows(path, (BY_ROUND, BY_TIME)):
        in_rounds = layout is BY_ROUND
        i, j = (whole(path, line, name, text, MOST_CLIENTS) for name, text in zip(layout[-2:], fields[-2:]))
        if in_rounds:
            first = float(whole(path, line, "round", fields[0]))
            last = first + 1
        else:
            first, last = (number(path, line, name, text) for name, text in zip(layout, fields[:2]))
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
    return Contacts(np.frombuffer(start), np.frombuffer(end), pairs, in_rounds, str(path))


def _is_table(text: str, of_contacts: bool) -> bool:
    """Tell whether a text is a table: of contacts, by its header or by three columns without one, or else of places."""
    line = first_line(text)
    columns = line.split(marks_of([line])[0])
    has_contacts = {"i", "j"} <= set(header_of(columns)) if is_header(columns) else len(columns) == 3
    return len(columns) > 1 and has_contacts == of_contacts


TRACE_FORMATS.register("csv", doc="A table of time, id and x, y in metres or lon, lat in degrees.")(
    TraceFormat(read_csv, is_like=partial(_is_table, of_contacts=False), takes_columns=True)
)
TRACE_FORMATS.register("csv_geo", doc="A table of time, id, lon, lat in degrees.")(
    TraceFormat(partial(read_csv, geographic=True), takes_columns=True)
)
TRACE_FORMATS.register("contacts", doc="Rows of round,i,j or of start,end,i,j: who is in contact when.")(
    TraceFormat(read_contacts, is_like=partial(_is_table, of_contacts=True))
)
TRACE_FORMATS.register("parquet", doc="The same as csv in a file of Parquet, as SUMO writes it.")(
    TraceFormat(read_parquet, (".parquet",), lambda text: text.startswith("PAR1"), takes_columns=True)
)
