"""The part of a trace that is used: nodes of some types, a window of time, an area."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.tables import date_seconds
from mdfl_jax.traces.reading import wrong
from mdfl_jax.traces.trace import Contacts, Trace

TURN = 360.0  # degrees of longitude around the earth


class Part(NamedTuple):
    """Which part of a file is used. With the defaults it is all of it.

    Attributes:
      types: the types of nodes; () for all.
      times: (begin, end) in seconds of the file; both instants belong to the part.
      area: (west, south, east, north) in the unit of the file, metres or degrees; the border belongs to the part. West
        of degrees is larger than east if the area lies across the longitude 180.
    """

    types: tuple[str, ...] = ()
    times: tuple[float, float] = (-math.inf, math.inf)
    area: tuple[float, float, float, float] | None = None


ALL = Part()


def part_of(types: str = "", times: str = "", area: str = "") -> Part:
    """Return the part that the texts of the fields `trace.types`, `trace.times` and `trace.area` say.

    Args:
      types: names with commas between.
      times: begin and end, numbers of seconds or dates with a time.
      area: west, south, east and north.

    Raises:
      UserError: for a text of another form.

    >>> part_of("car, bus", "0,60.5", "0,0,100,50")
    Part(types=('car', 'bus'), times=(0.0, 60.5), area=(0.0, 0.0, 100.0, 50.0))
    """
    part = ALL
    if types:
        part = part._replace(types=tuple(name.strip() for name in types.split(",")))
    if times:
        found = _numbers(times, 2)
        if not found or not found[0] < found[1]:
            raise UserError(
                f"trace.times is {times!r}; it must be begin,end in seconds of the file, or dates with a time, such as "
                "3600,7200 or 2008-02-02 15:00:00,2008-02-02 18:00:00"
            )
        part = part._replace(times=(found[0], found[1]))
    if area:
        found = _numbers(area, 4)
        if not found or not found[1] < found[3] or found[0] == found[2]:
            raise UserError(
                f"trace.area is {area!r}; it must be west,south,east,north in the unit of the file, metres or degrees, "
                "such as 0,0,1000,500"
            )
        part = part._replace(area=(found[0], found[1], found[2], found[3]))
    return part


def _numbers(text: str, count: int) -> list[float]:
    """Return the numbers or dates of a text with commas between; [] if there are not ``count`` of them, all finite."""
    try:
        found = [float(word) if (date := date_seconds(word)) is None else date for word in text.split(",")]
    except ValueError:
        return []
    return found if len(found) == count and all(map(math.isfinite, found)) else []


def of_places(path: str | Path, trace: Trace, part: Part) -> Trace:
    """Return the part of a trace whose places are in the unit of its file. Nodes without a sample there are left out.

    Raises:
      UserError: if nothing is left, if the file does not know the types, or if it is one of waypoints.
    """
    if trace.waypoints:
        wrong(
            path,
            f"trace.types, trace.times and trace.area choose samples, and the format {trace.format} has the corners of "
            "paths; trace.start skips the beginning",
        )
    kept = (trace.sample_times >= part.times[0]) & (trace.sample_times <= part.times[1])
    if part.types:
        kept &= _of_types(path, trace.kinds, part.types)[trace.node]
    if part.area:
        kept &= _within(trace, part.area)
    if not kept.any():
        wrong(path, "trace.types, trace.times and trace.area leave no sample of it")
    begin = np.searchsorted(trace.times, part.times[0], side="left")
    end = np.searchsorted(trace.times, part.times[1], side="right")
    offsets = np.append(0, np.cumsum(kept))[trace.offsets[begin : end + 1]]
    nodes, node = np.unique(trace.node[kept], return_inverse=True)
    return replace(
        trace,
        ids=tuple(trace.ids[k] for k in nodes),
        kinds=tuple(trace.kinds[k] for k in nodes) if trace.kinds else (),
        times=trace.times[begin:end],
        offsets=offsets,
        node=node.astype(np.int32),
        x=trace.x[kept],
        y=trace.y[kept],
        z=None if trace.z is None else trace.z[kept],
    )


def _within(trace: Trace, area: tuple[float, float, float, float]) -> np.ndarray:
    west, south, east, north = area
    x, y = (column.astype(float) + start for column, start in zip((trace.x, trace.y), trace.origin))
    width = east - west
    if trace.format.endswith("_geo"):
        x, width = (x - west) % TURN, width % TURN
    else:
        x = x - west
    return (x >= 0) & (x <= width) & (south <= y) & (y <= north)


def of_contacts(contacts: Contacts, part: Part) -> Contacts:
    """Return the part of a contact list; contacts that began before the window, or end after it, are cut.

    Raises:
      UserError: if nothing is left, if the file does not know the types, or for an area.
    """
    path = contacts.source
    if part.area:
        wrong(path, "trace.area chooses places, and a contact list has none")
    start, end = np.maximum(contacts.start, part.times[0]), np.minimum(contacts.end, part.times[1])
    kept = (start < end) | ((start == end) & (contacts.start == contacts.end))
    if part.types:
        kept &= _of_types(path, contacts.kinds, part.types)[contacts.pair].all(axis=1)
    if not kept.any():
        wrong(path, "trace.types and trace.times leave no contact of it")
    contacts = replace(contacts, start=start[kept], end=end[kept], pair=contacts.pair[kept])
    if not contacts.ids:
        return contacts
    nodes, pair = np.unique(contacts.pair, return_inverse=True)
    return replace(
        contacts,
        ids=tuple(contacts.ids[k] for k in nodes),
        kinds=tuple(contacts.kinds[k] for k in nodes) if contacts.kinds else (),
        pair=pair.reshape(-1, 2).astype(np.int32),
    )


def _of_types(path: str | Path, kinds: Sequence[str], types: Sequence[str]) -> np.ndarray:
    """Return which nodes are of some types, [M] bool."""
    known = sorted(set(kinds))
    if unknown := [name for name in types if name not in known]:
        held = f"it has {', '.join(known)}" if known else "it does not say what its nodes are"
        wrong(path, f"trace.types names {unknown[0]!r}; {held}")
    return np.isin(np.array(kinds), types)
