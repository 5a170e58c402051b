"""Reads tables of comma-separated values: places by id and time, and contact lists."""

import csv
from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from mdfl_jax.traces.reading import (
    MOST_CLIENTS,
    TRACE_FORMATS,
    Columns,
    TraceFormat,
    check_count,
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


def is_header(row: Sequence[str]) -> bool:
    """Tell whether a row names columns: its first field is a word, not a number."""
    return row[0].strip().replace("_", "").isalpha() and row[0].strip().lower() not in ("nan", "inf", "infinity")


def header_of(row: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a header row, in lower case."""
    return tuple(name.strip().lower() for name in row)


def _rows(path: str | Path, layouts: Sequence[tuple[str, ...]]) -> Iterator[tuple[int, tuple[str, ...], list[str]]]:
    """Yield the rows of a file as (line, layout, fields in the layout's order).

    Blank lines and lines that begin with # are skipped. A header may name the columns in any order, and may name
    further columns. Without a header the columns are those of the first layout that has as many.
    """
    wanted = " or ".join(",".join(layout) for layout in layouts)
    layout: tuple[str, ...] = ()
    width, take = 0, list[int]()
    with opened(path) as stream:
        rows = csv.reader(lines_of(path, stream), skipinitialspace=True)
        try:
            for row in rows:
                if not row or row[0].startswith("#"):
                    continue
                if not layout:
                    names = header_of(row) if is_header(row) else ()
                    fitting = [one for one in layouts if (set(one) <= set(names) if names else len(one) == len(row))]
                    if not fitting:
                        what = f"columns {','.join(names)}" if names else f"{len(row)} columns and no header"
                        wrong(path, f"{what}; they must be {wanted}", rows.line_num)
                    layout, width = fitting[0], len(row)
                    take = [names.index(name) for name in layout] if names else list(range(width))
                    if names:
                        continue
                if len(row) != width:
                    wrong(path, f"{len(row)} columns where the first line has {width}", rows.line_num)
                yield rows.line_num, layout, [row[k] for k in take]
        except csv.Error as error:
            wrong(path, f"it is not comma-separated text ({error})", rows.line_num)


def read_csv(path: str | Path, geographic: bool | None = None) -> Trace:
    """Read ``time,id,x,y`` (seconds, a name, metres) or ``time,id,lon,lat`` (degrees, projected about their mean).

    Rows may be sorted by time or by id, but the times of each id must grow.

    Args:
      path: the file, plain or gzip.
      geographic: whether places are degrees. None decides by the header, and takes metres where there is no header.

    Returns:
      The trace, in metres.

    Raises:
      UserError: for other columns, a field that is not a finite number, times of an id that do not grow, a sample given
        twice, or a longitude or latitude out of range.
    """
    layouts = {None: (PLANE, GLOBE), True: (GLOBE,), False: (PLANE,)}[geographic]
    columns = Columns(path)
    for line, layout, fields in _rows(path, layouts):
        columns.geographic = layout is GLOBE
        time, name, x, y = fields
        try:
            columns.add(line, name, float(time), float(x), float(y))
        except (ValueError, OverflowError):
            for field, text in zip(layout, fields):
                if field != "id":
                    number(path, line, field, text)
            raise
    return columns.trace("csv")


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
    columns = first_line(text).split(",")
    has_contacts = {"i", "j"} <= set(header_of(columns)) if is_header(columns) else len(columns) == 3
    return len(columns) > 1 and has_contacts == of_contacts


TRACE_FORMATS.register("csv", doc="Rows of time,id,x,y in metres, or of time,id,lon,lat.")(
    TraceFormat(read_csv, is_like=partial(_is_table, of_contacts=False))
)
TRACE_FORMATS.register("csv_geo", doc="Rows of time,id,lon,lat in degrees.")(
    TraceFormat(partial(read_csv, geographic=True))
)
TRACE_FORMATS.register("contacts", doc="Rows of round,i,j or of start,end,i,j: who is in contact when.")(
    TraceFormat(read_contacts, is_like=partial(_is_table, of_contacts=True))
)
