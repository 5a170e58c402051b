"""Writers: a trace as comma-separated values, or as BonnMotion's waypoints."""

import gzip
import io
from pathlib import Path
from typing import TextIO

import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.traces.types import Trace


def write_csv(trace: Trace, path: str | Path) -> None:
    """Writes ``time,id,x,y`` in order of time, in metres to a tenth of a millimetre; gzip where the path ends in .gz.

    A geographic trace is written as it is in memory, in metres about its mean. That a trace is of waypoints is not in
    the file.

    Raises:
      UserError: an id that the format cannot hold.
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
    """Writes a line a node, ``time x y`` of each sample; gzip where the path ends in .gz. The names are lost.

    Between its samples a node goes straight in both formats; before and after them, and in a gap, a BonnMotion node
    stays or goes on, for the format knows no absence.
    """
    order = np.argsort(trace.node, kind="stable")
    ends = np.cumsum(np.bincount(trace.node, minlength=len(trace.ids)))
    x, y = _absolute(trace)
    rows = np.stack([trace.sample_times[order], x[order], y[order]], axis=1)
    with _created(path) as out:
        for node in np.split(rows, ends[:-1]):
            out.write(" ".join(map(repr, node.ravel().tolist())) + "\n")


def _absolute(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Places in the file's metres, float64 [n] each, rounded to what the format is said to keep."""
    base = (0.0, 0.0) if trace.format.endswith("_geo") else trace.origin
    x, y = (np.round(column.astype(np.float64) + start, 4) for column, start in zip((trace.x, trace.y), base))
    return x, y


def _created(path: str | Path) -> TextIO:
    try:
        if str(path).endswith(".gz"):
            # Without the time of writing, so that the same trace makes the same file.
            return io.TextIOWrapper(gzip.GzipFile(path, "wb", mtime=0), encoding="utf-8")
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{str(path)!r} cannot be written ({error.strerror})") from error
