"""Writes a trace as comma-separated values, or as BonnMotion's waypoints."""

import gzip
import io
from pathlib import Path
from typing import TextIO

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces.trace import Trace


def write_csv(trace: Trace, path: str | Path) -> None:
    """Write ``time,id,x,y`` sorted by time, in metres with a resolution of 0.1 mm; gzip where the path ends in .gz.

    A geographic trace is written as it is in memory, in metres about its mean. The file does not say whether the
    samples are waypoints.

    Raises:
      UserError: for an id that the format cannot express, or a file that cannot be written.
    """
    for name in trace.ids:
        if name != name.strip() or any(mark in name for mark in ',"\n\r') or name.startswith("#"):
            raise UserError(f"id {name!r} cannot stand in a CSV file of ours: no commas, quotes, line ends or blanks")
    with _created(path) as out:
        out.write("time,id,x,y\n")
        x, y = _absolute(trace)
        for time, low, high in zip(trace.times.tolist(), trace.offsets[:-1].tolist(), trace.offsets[1:].tolist()):
            rows = zip(trace.node[low:high].tolist(), x[low:high].tolist(), y[low:high].tolist())
            out.writelines(f"{time!r},{trace.ids[node]},{a!r},{b!r}\n" for node, a, b in rows)


def write_bonnmotion(trace: Trace, path: str | Path) -> None:
    """Write one line per node, with ``time x y`` for each sample; gzip where the path ends in .gz. Names are lost.

    In both formats a node moves straight between its samples. This format cannot express absence: a node stands still
    before its first sample and after its last one, and in a gap it stays or continues.

    Raises:
      UserError: for a file that cannot be written.
    """
    order = np.argsort(trace.node, kind="stable")
    ends = np.cumsum(np.bincount(trace.node, minlength=len(trace.ids)))
    x, y = _absolute(trace)
    rows = np.stack([trace.sample_times[order], x[order], y[order]], axis=1)
    with _created(path) as out:
        for node in np.split(rows, ends[:-1]):
            out.write(" ".join(map(repr, node.ravel().tolist())) + "\n")


def _absolute(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y in the metres of the file, float64 [n] each, rounded to 0.1 mm."""
    base = (0.0, 0.0) if trace.format.endswith("_geo") else trace.origin
    x, y = (np.round(column.astype(np.float64) + start, 4) for column, start in zip((trace.x, trace.y), base))
    return x, y


def _created(path: str | Path) -> TextIO:
    try:
        if str(path).endswith(".gz"):
            # The time of writing is left out, so that the same trace gives the same file.
            return io.TextIOWrapper(gzip.GzipFile(path, "wb", mtime=0), encoding="utf-8")
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{str(path)!r} cannot be written ({error.strerror})") from error
