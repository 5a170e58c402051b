"""A random trace in every format: read as it was written, and after a fault of the file read right or refused.

The writers are of this test, pandas and the XML of the standard library. What is read must be what the changed file
still says: all of the trace, or a part of it where lines were lost.
"""

import random
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces import Trace, load, write_bonnmotion, write_csv

Truth = dict[str, list[tuple[float, float, float]]]


def drawn_trace(draw: random.Random) -> Truth:
    """Some vehicles in a town, each seen at some of the instants, with steps of at most 40 metres a second."""
    step, instants = draw.choice([1, 2, 20]), draw.randint(2, 6)
    truth: Truth = {}
    for k in range(draw.randint(2, 5)):
        x, y, rows = draw.uniform(200, 9000), draw.uniform(200, 9000), []
        first = draw.randint(0, instants - 2)
        for i in range(first, draw.randint(first + 2, instants)):
            x, y = x + draw.uniform(1, 20) * step, y + draw.uniform(1, 20) * step
            rows.append((float(i * step), round(x, 2), round(y, 2)))
        truth[str(k)] = rows
    return truth


def by_time(truth: Truth) -> pd.DataFrame:
    rows = [(t, name, x, y) for name, way in truth.items() for t, x, y in way]
    return pd.DataFrame(sorted(rows, key=lambda row: (row[0], int(row[1]))), columns=["time", "id", "x", "y"])


def sumo(truth: Truth) -> str:
    root = ET.Element("fcd-export")
    for time, rows in by_time(truth).groupby("time"):
        step = ET.SubElement(root, "timestep", time=f"{time:.2f}")
        for row in rows.itertuples():
            ET.SubElement(step, "vehicle", id=row.id, x=f"{row.x:.2f}", y=f"{row.y:.2f}", angle="90.00", type="car")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def csv(truth: Truth) -> str:
    return by_time(truth).to_csv(index=False)


def bonnmotion(truth: Truth) -> str:
    return "".join(" ".join(f"{value}" for row in way for value in row) + "\n" for way in truth.values())


def ns2_of_sumo(truth: Truth) -> str:
    lines, known = [], set()
    for t, name, x, y in by_time(truth).itertuples(index=False):
        if name not in known:
            lines += [f"$node_({name}) set {axis}_ {value}" for axis, value in (("X", x), ("Y", y), ("Z", 0))]
            known.add(name)
        lines.append(f'$ns_ at {t} "$node_({name}) setdest {x} {y} 9.5"')
    return "\n".join(lines) + "\n"


def one(truth: Truth) -> str:
    table = by_time(truth)
    bounds = f"0 {table.time.max():g} 0 10000 0 10000\n"
    return bounds + "".join(f"{t:g} {name} {x} {y}\n" for t, name, x, y in table.itertuples(index=False))


WRITERS = {
    "sumo": (sumo, ".xml"),
    "csv": (csv, ".csv"),
    "bonnmotion": (bonnmotion, ".movements"),
    "ns2": (ns2_of_sumo, ".tcl"),
    "one": (one, ".one"),
}


def read_of(trace: Trace) -> set[tuple[str, float, float, float]]:
    """The samples in the metres of the file, to a centimetre."""
    x, y = (column.astype(float) + start for column, start in zip((trace.x, trace.y), trace.origin))
    rows = zip(trace.node.tolist(), trace.sample_times.tolist(), x.tolist(), y.tolist())
    return {(trace.ids[k], t, round(a, 2), round(b, 2)) for k, t, a, b in rows}


def said_of(truth: Truth) -> set[tuple[str, float, float, float]]:
    return {(name, *row) for name, way in truth.items() for row in way}


def written(folder, kind: str, truth: Truth):
    write, ending = WRITERS[kind]
    path = folder / f"trace{ending}"
    path.write_text(write(truth))
    return path


@pytest.mark.parametrize("kind", WRITERS)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**40))
def test_what_is_written_is_read(kind, tmp_path_factory, seed):
    truth = drawn_trace(random.Random(seed))
    trace = load(written(tmp_path_factory.mktemp("any"), kind, truth))
    assert read_of(trace) == said_of(truth)
    assert (trace.times.dtype, trace.node.dtype, trace.x.dtype, trace.y.dtype) == ("f8", "i4", "f4", "f4")
    assert (np.diff(trace.times) > 0).all()
    assert (np.diff(trace.offsets) > 0).all()
    assert (trace.offsets[0], trace.offsets[-1]) == (0, len(trace.node))
    assert len(trace.ids) == len(set(trace.ids)) == trace.node.max() + 1
    assert trace.format == kind
    assert not trace.kinds or set(trace.kinds) == {"car"}
    for back in (write_csv, write_bonnmotion):
        path = tmp_path_factory.mktemp("back") / "trace"
        back(trace, path)
        found = read_of(load(path, "csv" if back is write_csv else "bonnmotion"))
        named = read_of(
            replace(trace, ids=tuple(map(str, range(len(trace.ids))))) if back is write_bonnmotion else trace
        )
        assert found == named


CELLS = ["", "nan", "inf", "abc", "1e999", "--", "12,5", "0x10", "1.2.3"]


def lost_lines(draw, lines):
    kept = [line for line in lines if draw.random() < 0.8]
    return kept, True


def cut(draw, lines):
    return lines[: draw.randint(0, len(lines))], True


def bad_cell(draw, lines):
    """A cell of one line is no number. Where it is a name, the line is of another node."""
    k = draw.randrange(len(lines))
    for mark in (",", ";", " "):
        if mark in lines[k].strip():
            cells = lines[k].split(mark)
            cells[draw.randrange(len(cells))] = draw.choice(CELLS)
            return [*lines[:k], mark.join(cells), *lines[k + 1 :]], None
    return lines, False


def twice(draw, lines):
    k = draw.randrange(len(lines))
    return [*lines[:k], lines[k], *lines[k:]], False


def header_misspelt(draw, lines):
    at = draw.choice([k for k, letter in enumerate(lines[0]) if letter.isalpha()] or [0])
    return [lines[0][:at] + draw.choice("qz_") + lines[0][at + 1 :], *lines[1:]], True


def column_lost(draw, lines):
    mark = next((mark for mark in ",; " if mark in lines[-1].strip()), " ")
    k = draw.randrange(len(lines[-1].split(mark)))
    return [mark.join(cell for c, cell in enumerate(line.split(mark)) if c != k) for line in lines], True


FAULTS = (lost_lines, cut, bad_cell, twice, header_misspelt, column_lost)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**40))
def test_a_fault_is_read_right_or_refused(tmp_path_factory, seed):
    folder, draw = tmp_path_factory.mktemp("fault"), random.Random(seed)
    kind = draw.choice([*WRITERS])
    fault = draw.choice(FAULTS)
    truth = drawn_trace(draw)
    path = written(folder, kind, truth)
    lines = path.read_text().splitlines()
    changed, may_lack = fault(draw, lines)
    path.write_text("\n".join(changed) + "\n")
    what = (kind, fault.__name__, seed, path.read_text())
    try:
        loaded = load(path)
    except UserError as error:
        line = str(error)
        assert "\n" not in line and str(path) in line, what  # noqa: PT018
        return
    assert isinstance(loaded, Trace), what
    found, said = read_of(loaded), said_of(truth)
    if kind.startswith("bonnmotion"):  # a node has the number of its line: a line more or less renames those after it
        found, said = ({row[1:] for row in rows} for rows in (found, said))
    if may_lack is False:
        assert found == said, what
    elif kind == "ns2" and loaded.waypoints:
        # Of each vehicle that is left a line of its first place is lost: it is no export of SUMO's any more.
        assert fault in (lost_lines, cut), what
    else:
        assert found <= said or (may_lack is None and len(found - said) <= 1), what
