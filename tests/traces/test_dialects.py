"""Drawn tables in drawn dialects: as tools of this world save them, all are read equal, or refused in one line.

A dialect is the mark between columns, the decimal mark, the header, comments, the encoding, the ends of lines, the
order of the columns, the first id and a header that occurs again. What is right is known from the drawn rows.
"""

import random
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.contrib.partitions.table import read_table
from mdfl_jax.core.errors import UserError
from mdfl_jax.data.sources import load as load_data
from mdfl_jax.networks.fixed import read_matrices
from mdfl_jax.traces import Contacts, Trace, load
from mdfl_jax.traces.plausible import speeds


@dataclass(frozen=True)
class Dialect:
    """How a table is written."""

    mark: str
    decimal: str
    header: str  # "", "plain", "comment"
    comment: str  # the mark of comments at the beginning; "": there are none
    encoding: str
    end: str
    again: bool  # whether the header occurs again in the middle
    quotes: bool
    blanks: bool  # blank lines and blanks after marks

    def write(self, path, names, rows):
        """Write texts and floats."""
        lines = [self._line(map(self._cell, row)) for row in rows]
        header = self._line(names)
        if self.header and self.again:
            lines.insert(len(lines) // 2, header)
        lines = [{"plain": header, "comment": f"# {header}"}[self.header], *lines] if self.header else lines
        if self.comment:
            lines.insert(0, f"{self.comment} saved by a tool, version 1")
            lines.insert(len(lines) // 2 + 1, f"{self.comment} half of it")
        if self.blanks:
            lines.insert(len(lines) // 2 + 1, "")
        path.write_bytes((self.end.join(lines) + self.end).encode(self.encoding))

    def _cell(self, value):
        text = repr(value) if isinstance(value, float) else str(value)
        return text.replace(".", self.decimal) if isinstance(value, float) else text

    def _line(self, cells):
        mark = self.mark + " " * (self.blanks and self.mark != "\t")
        return mark.join(f'"{cell}"' if self.quotes else cell for cell in cells)


def drawn_dialect(draw, headers=("plain", "comment")):
    mark = draw.choice([",", ";", "\t", " "])
    decimal = draw.choice([".", ","]) if mark != "," else "."
    encoding = draw.choice(["utf-8", "utf-8-sig", "utf-16", "cp1252"])
    return Dialect(
        mark, decimal, draw.choice(headers), draw.choice(["", "#", "%"]), encoding, draw.choice(["\n", "\r\n"]),
        draw.random() < 0.3, draw.random() < 0.2, draw.random() < 0.3,
    )  # fmt: skip


def seeds(count=60):
    """Decorate a test of a drawn random generator."""
    return lambda test: settings(max_examples=count, deadline=None)(given(st.integers(0, 2**40))(test))


@seeds()
def test_places(tmp_path_factory, seed):
    draw = random.Random(seed)
    dialect, name = drawn_dialect(draw), draw.choice(["car", "höhe", "v 1", ""])
    name = name if dialect.mark != " " or dialect.quotes else name.replace(" ", "")
    rows = [(0.5 + t, f"{name}{k}", 90.25 * k + 7.5 * t, 0.75 + t) for t in range(4) for k in range(1, 4)]
    order = draw.sample(range(4), 4)
    path = tmp_path_factory.mktemp("dialect") / "trace.csv"
    given = draw.choice([("time", "id", "x", "y"), ("timestep_time", "vehicle_id", "vehicle_x", "vehicle_y")])
    dialect.write(path, [given[k] for k in order], [[row[k] for k in order] for row in rows])
    trace = load(path)
    assert isinstance(trace, Trace)
    read = sorted((t, trace.ids[k], float(x), float(y))
                  for t, k, x, y in zip(trace.sample_times, trace.node, trace.x, trace.y))  # fmt: skip
    assert read == sorted(rows)
    assert ("is left out in 1 later rows" in trace.why) == dialect.again
    assert ("Latin-1" in trace.why) == (dialect.encoding == "cp1252" and "ö" in name)


@seeds()
def test_contacts(tmp_path_factory, seed):
    draw = random.Random(seed)
    dialect, base = drawn_dialect(draw, ("plain", "comment", "")), draw.choice([0, 1, 100])
    rows = [(10.5 * k, 10.5 * k + 4.25, base + k % 3, base + k % 3 + 1) for k in range(6)]
    order, names = draw.sample(range(4), 4), ("start", "end", "i", "j")
    path, columns = tmp_path_factory.mktemp("dialect") / "contacts.txt", [names[k] for k in order]
    dialect.write(path, columns, [[row[k] for k in order] for row in rows])
    found = load(path, columns="" if dialect.header else ",".join(columns))
    assert isinstance(found, Contacts)
    read = zip(found.start.tolist(), found.end.tolist(), *(found.pair + base).T.tolist())
    assert list(read) == rows
    assert (f"clients {base} to {base + 3} are numbered 0 to 3" in found.why) == (base > 0)


@seeds()
def test_graphs_and_owners(tmp_path_factory, seed):
    draw = random.Random(seed)
    dialect, base, path = drawn_dialect(draw, ("plain", "")), draw.choice([0, 1]), tmp_path_factory.mktemp("dialect")
    wanted, notes = np.roll(np.eye(5, dtype=bool), 1, axis=1), list[str]()
    dialect.write(path / "ring.txt", ("i", "j"), [(k + base, (k + 1) % 5 + base) for k in range(5)])
    assert (read_matrices(path / "ring.txt", 5, notes=notes) == (wanted | wanted.T)).all()
    assert bool(notes) == (base == 1)
    dialect.write(path / "owner.csv", ("owner",), [(k % 3 + base,) for k in range(12)])
    assert read_table(str(path / "owner.csv")).tolist() == [k % 3 for k in range(12)]


@seeds()
def test_samples(tmp_path_factory, seed):
    draw = random.Random(seed)
    dialect, base = drawn_dialect(draw), draw.choice([0, 1, 7])
    rows = [(0.5 + k, 40.25 - k % 4, base + k % 3) for k in range(30)]
    folder = tmp_path_factory.mktemp("dialect")
    dialect.write(folder / "mine.csv", ("größe", "länge", "label"), rows)
    data = load_data("mine", str(folder))
    read = sorted(zip(data.x_train[:, 0].tolist(), data.x_train[:, 1].tolist(), (data.y_train + base).tolist()))
    assert read == [row for k, row in enumerate(rows) if (k // 3) % 5 != 4]
    assert data.num_classes == 3
    assert ("labels" in data.about.replace("(3 labels)", "")) == (base > 0)


@pytest.mark.parametrize("text", ["1,5;2\n1.5;2\n", "a;b,c\n1;2,x\n"])
def test_what_two_dialects_fit_is_refused(tmp_path, text):
    (tmp_path / "graph.csv").write_text(text)
    with pytest.raises(UserError, match=r"decimal commas|may divide its columns"):
        read_matrices(tmp_path / "graph.csv", 3)


def test_a_trace_with_decimal_commas_moves_at_its_speed(tmp_path):
    """Of a spreadsheet: a byte order mark, CRLF, semicolons; two cars at 10 m/s."""
    rows = [f"{t},5;car{k};{10 * t},25;{20 * k},75" for t in range(6) for k in range(2)]
    (tmp_path / "cars.csv").write_bytes("\r\n".join(["time;id;x;y", *rows, ""]).encode("utf-8-sig"))
    trace = load(tmp_path / "cars.csv")
    assert isinstance(trace, Trace)
    assert speeds(trace).mean == pytest.approx(10)


def test_a_blank_before_a_comma_is_no_decimal(tmp_path):
    """The text 0 ,1 has two cells, and a trace of such rows keeps its ids."""
    (tmp_path / "graph.txt").write_text("0 ,1\n1 ,2\n")
    assert read_matrices(tmp_path / "graph.txt", 3)[0].tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    (tmp_path / "trace.txt").write_text("5 ,1 ,25 ,7\n6 ,1 ,26 ,7\n")
    trace = load(tmp_path / "trace.txt", columns="time,id,x,y")
    assert isinstance(trace, Trace)
    assert (trace.ids, trace.times.tolist(), trace.x.tolist()) == (("1",), [5, 6], [25, 26])


def test_a_name_may_begin_as_a_comment_does(tmp_path):
    """In a column of names; among numbers, and before a blank, it is a comment, which is counted where a row may be."""
    rows = [f"{name},{t},{t},0" for t in range(3) for name in ("v1", "#2", "%3")]
    (tmp_path / "ids.csv").write_text("\n".join(["id,time,x,y", *rows, "# v4,0,1,2", "#, so", ""]))
    trace = load(tmp_path / "ids.csv")
    assert isinstance(trace, Trace)
    assert (trace.ids, len(trace.node)) == (("v1", "#2", "%3"), 9)
    assert "; 1 lines that begin with # or % are left out" in trace.why
    (tmp_path / "contacts.csv").write_text("time,i,j\n0,0,1\n#5,1,2\n#as measured\n10,0,2\n#time,i,j\n20,1,2\n")
    met = load(tmp_path / "contacts.csv")
    assert isinstance(met, Contacts)
    assert met.pair.tolist() == [[0, 1], [0, 2], [1, 2]]
    for said in ("; 1 lines that begin with # or % are left out", "; its header is left out in 1 later rows"):
        assert said in met.why
    (tmp_path / "bare.csv").write_text("# of 2024\n#a note, with, commas\n#0,2,3\n5,0,1\n9,1,2\n")
    assert "; 1 lines that begin with # or % are left out" in load(tmp_path / "bare.csv", columns="time,i,j").why
