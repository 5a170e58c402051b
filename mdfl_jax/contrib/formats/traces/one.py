"""Reads files of the ONE simulator (Keranen, Ott, Karkkainen, 2009): movements, and reports of connections."""

import re
from pathlib import Path

import numpy as np

from mdfl_jax.traces.reading import (
    TRACE_FORMATS,
    Columns,
    TraceFormat,
    first_line,
    lines_of,
    opened,
    read_number,
    wrong,
)
from mdfl_jax.traces.trace import Contacts, Trace, of_names

_EDGES = (6, 8)  # numbers of the first line of a movement: the bounds of time and of two or three axes
_ROW = (4, 5)  # numbers of a sample: time, id, and two or three axes


def read_movement(path: str | Path) -> Trace:
    """Read a movement that ONE's ExternalMovement reads: ``minTime maxTime minX maxX minY maxY``, then ``time id x y``.

    Both may have a third axis, the height. Places are in metres.

    Raises:
      UserError: for a line of another form, times of a node that do not grow, or heights of some samples only.
    """
    columns = Columns(path)
    with opened(path) as stream:
        for line, text in enumerate(lines_of(path, stream), 1):
            words = text.split()
            if not words or words[0].startswith("#"):
                continue
            if line == 1:
                if len(words) not in _EDGES:
                    wrong(path, f"{len(words)} numbers; the first line has minTime maxTime minX maxX minY maxY", line)
                continue
            if len(words) not in _ROW:
                wrong(path, f"{len(words)} words; a sample has time id x y", line)
            time, x, y, *height = (
                read_number(path, line, name, word)
                for name, word in zip(("time", "x", "y", "z"), (words[0], *words[2:]))
            )
            columns.add(line, words[1], time, x, y, z=height[0] if height else None)
    return columns.trace("one")


_EVENT = re.compile(r"(?P<time>\S+)\s+CONN\s+(?P<i>\S+)\s+(?P<j>\S+)\s+(?P<what>up|down)$", re.IGNORECASE)
_OTHER = re.compile(r"\S+\s+(C|S|DE|DR|A|D|R)\s")  # ONE's events of messages, which say nothing of connections


def read_connections(path: str | Path) -> Contacts:
    """Read a report of connections, ``time CONN i j up`` and ``time CONN i j down``, as ONE's ConnectivityONEReport.

    ONE's StandardEventsReader reads the same lines; the events of messages among them are left out.

    A connection that is up at the end of the report ends at its last event. Nodes are numbered in the order of their
    names, p2 before p10.

    Raises:
      UserError: for a line of another form, a connection that comes up twice or goes down without having been up, or
        times that go back.
    """
    since: dict[tuple[str, str], tuple[float, int]] = {}
    found: list[tuple[float, float, str, str]] = []
    now = -np.inf
    with opened(path) as stream:
        for line, text in enumerate(lines_of(path, stream), 1):
            if not text.strip() or text.startswith("#"):
                continue
            event = _EVENT.match(text.strip())
            if not event and _OTHER.match(text.strip()):
                continue
            if not event:
                wrong(path, f"{text.strip()[:60]!r} is no event; it must be time CONN i j up, or down", line)
            time, i, j = read_number(path, line, "time", event["time"]), *sorted((event["i"], event["j"]))
            if time < now:
                wrong(path, f"time goes back from {now:g} to {time:g}", line)
            if i == j:
                wrong(path, f"{i} is connected with itself", line)
            now = time
            if event["what"].lower() == "up":
                if (i, j) in since:
                    wrong(path, f"the connection of {i} and {j} comes up, and is up since line {since[i, j][1]}", line)
                since[i, j] = time, line
            elif (i, j) in since:
                found.append((since.pop((i, j))[0], time, i, j))
            else:
                wrong(path, f"the connection of {i} and {j} goes down, and is not up", line)
    found += [(begun, now, i, j) for (i, j), (begun, _) in since.items()]
    if not found:
        wrong(path, "it holds no connections")
    start, end, i, j = zip(*found)
    return of_names(start, end, list(zip(i, j)), str(path), "one_conn")


TRACE_FORMATS.register("one", doc="ONE's movements: bounds, then lines of time id x y.")(
    TraceFormat(read_movement, (".one",))
)


def _conn_sign(text: str) -> str:
    return "lines of CONN" if _EVENT.match(first_line(text).strip()) else ""


TRACE_FORMATS.register("one_conn", doc="ONE's reports of connections: time CONN i j up, or down.")(
    TraceFormat(read_connections, sign=_conn_sign)
)
