"""Loads a trace of any format: finds the format, reads the file, takes a part of it, and converts degrees to metres.

A format shows by the ending of a file's name or by a header. If neither says it, or both say two formats, the file is
refused in one line that names the field which decides.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.storage.given import decoded_start, held_file
from mdfl_jax.traces.formats.tables import has_contacts, likely_columns
from mdfl_jax.traces.part import ALL, Part, of_contacts, of_places
from mdfl_jax.traces.plausible import like_degrees
from mdfl_jax.traces.reading import HALF_TURN, TRACE_FORMATS, first_line, opened, trace_files, wrong
from mdfl_jax.traces.trace import Contacts, Trace

EARTH_RADIUS = 6_371_008.8  # metres, the IUGG mean radius R1

_HEAD = 1 << 16  # bytes at the beginning of a file, by which its format is found
_TRIED = 20  # files of a folder by which its format is found


def load(
    path: str | Path, format: str = "auto", columns: str = "", part: Part = ALL, hold: float = 0.0
) -> Trace | Contacts:
    """Read a trace file, plain or gzip, or a folder of files.

    Args:
      path: the file or the folder.
      format: a name of `TRACE_FORMATS`, or "auto", which is `detect`. Then metres that look like degrees are refused.
      columns: the names of the columns of a table in their order, such as "id,time,lon,lat"; "": as its header says.
      part: which part of it is used.
      hold: seconds for which each contact of a list ``time,i,j`` holds; 0: the shortest step between two of its times.

    Returns:
      The places, or the contact list.

    Raises:
      UserError: for an unknown format, or a file that is not in this format; the readers say more.
    """
    if format not in ("auto", *TRACE_FORMATS):
        raise UserError(unknown_name("trace format", format, ("auto", *TRACE_FORMATS)) + TRACE_FORMATS.lacks())
    named = [of.strip() for of in columns.split(",")] if columns else []
    name, sign = (format, "as trace.format says") if format != "auto" else detect(path, named)
    if Path(path).is_dir() and not TRACE_FORMATS[name].folders:
        wrong(path, f"it is a folder; a trace in the format {name} is one file")
    if named and not TRACE_FORMATS[name].takes_columns:
        wrong(path, f"trace.columns is {columns!r}, and the format {name} has columns of its own; it must be empty")
    loaded = TRACE_FORMATS[name].read(path, **({"named": named} if named else {}))
    loaded = replace(loaded, why="; ".join(filter(None, (sign, loaded.why))))
    step = loaded.step if isinstance(loaded, Contacts) else 0.0
    if hold and not step:
        wrong(path, f"trace.hold is {hold:g}; it must be 0: the file says itself when contacts end, or has none")
    if isinstance(loaded, Contacts):
        if step:
            why = f"{loaded.why}; steps of {step:g} s; each contact holds {hold or step:g} s (trace.hold)"
            loaded = replace(loaded, end=loaded.start + (hold or step), why=why)
        return loaded if part == ALL else of_contacts(loaded, part)
    if part != ALL:
        loaded = of_places(path, loaded, part)
    if loaded.format.endswith("_geo"):
        return projected(loaded)
    if format == "auto" and not columns and like_degrees(loaded):
        x, y = (float(column[0]) + start for column, start in zip((loaded.x, loaded.y), loaded.origin))
        said = [f"places such as {x:g}, {y:g} look like degrees", f"trace.format={name} reads metres"]
        if TRACE_FORMATS[name].takes_columns and not loaded.waypoints:
            said.append("trace.columns=time,id,lon,lat (or lat,lon, as it is) reads degrees")
        elif f"{name}_geo" in TRACE_FORMATS:
            said.append(f"trace.format={name}_geo reads degrees")
        wrong(path, "; ".join(said))
    return loaded


def projected(trace: Trace) -> Trace:
    """Convert the degrees of a trace to metres.

    Longitude and latitude are projected about their means (equirectangular): x = R cos(mean lat) (lon - mean lon) and
    y = R (lat - mean lat), with angles in radians. Within 100 km of the mean the error is about 1 % at middle
    latitudes.
    """
    mean_x, mean_y = float(trace.x.mean(dtype=np.float64)), float(trace.y.mean(dtype=np.float64))
    lon, lat = trace.origin[0] + mean_x, trace.origin[1] + mean_y
    metres = math.radians(1.0) * EARTH_RADIUS
    x = (trace.x - np.float32(mean_x)) * np.float32(metres * math.cos(math.radians(lat)))
    y = (trace.y - np.float32(mean_y)) * np.float32(metres)
    if not -HALF_TURN <= lon <= HALF_TURN:
        lon -= math.copysign(2 * HALF_TURN, lon)
    return replace(trace, x=x, y=y, origin=(lon, lat))


def detect(path: str | Path, named: Sequence[str] = ()) -> tuple[str, str]:
    """Find the format of a file or a folder by the ending of its name and by its header.

    A format that both speak for is taken before those for which one of them does.

    Args:
      path: the file or the folder.
      named: the names of its columns, if they are given. Then it is of a format that takes them.

    Returns:
      (a name of `TRACE_FORMATS`, by what it is seen to be this format).

    Raises:
      UserError: for a file that cannot be read, or if no format or several are left.
    """
    is_folder = Path(path).is_dir()
    names = [name for name in TRACE_FORMATS if TRACE_FORMATS[name].folders or not is_folder]
    by_name, by_text, first = dict[str, str](), dict[str, str](), ""
    for _, file in trace_files(path)[:_TRIED]:
        with opened(file) as stream:
            text = decoded_start(stream.read(_HEAD)).lstrip()
        first = first or text
        ending = Path(str(file).removesuffix(".gz")).suffix.lower()
        for name in names:
            if ending in TRACE_FORMATS[name].endings:
                by_name[name] = f"a name that ends in {ending}"
            if sign := TRACE_FORMATS[name].sign(text):
                by_text.setdefault(name, sign)
    found = {name: by_text[name] for name in by_name if name in by_text} or by_name | by_text
    if named:
        found = {name: sign for name, sign in found.items() if TRACE_FORMATS[name].takes_columns}
        if len(found) != 1:
            return ("contacts" if has_contacts(named) else "csv"), ""
    if len(found) == 1:
        return next(iter(found.items()))
    if not found and first.startswith("PAR1"):
        wrong(
            path,
            "it is of Parquet, which is not read; pandas.read_parquet(FILE).to_csv(NAME, index=False) makes a table",
        )
    if not found:
        told = " or ".join(f"trace.columns={columns}" for columns in likely_columns(first))
        wrong(
            path,
            f"neither its ending nor a header says its format (it begins with {first_line(first)[:40]!r}); "
            + f"it may be a table without a header, and {told} names its columns; " * bool(told)
            + f"trace.format names the format: {', '.join(names)}"
            + "; or trace.columns names the columns of a table, such as time,id,x,y" * (not told),
        )
    signs = " or ".join(f"{name} ({sign})" for name, sign in found.items())
    wrong(path, f"it may be {signs}; trace.format says which, as in trace.format={next(iter(found))}")


@contextlib.contextmanager
def table_file(table: Any) -> Iterator[str]:
    """Make a table of Python known as a file inside the context, for `load`.

    Args:
      table: a `pandas.DataFrame` with the columns of a table of places or of a contact list.

    Yields:
      The path for the field trace.file.

    Raises:
      UserError: if it is no such table.
    """
    if not (hasattr(table, "to_csv") and hasattr(table, "columns")):
        raise UserError(f"trace is {type(table).__name__}; allowed: a pandas.DataFrame; trace.file names a file")
    with held_file("trace.csv", table.to_csv(index=False).encode()) as path:
        yield path
