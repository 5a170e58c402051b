"""Traces and contact lists beyond all bounds: described with a warning where that is harmless, else refused."""

import gzip
import time

import numpy as np
import pytest
from small import told

from mdfl_jax.contrib.describe.traces import describe_trace
from mdfl_jax.core.errors import UserError
from mdfl_jax.traces import contact_table, load, reading, resample
from mdfl_jax.traces.formats import sumo

CENTURY = 100 * 365 * 86_400


def trace(tmp_path, *rows, name="a.csv", header="time,id,x,y"):
    path = tmp_path / name
    path.write_text("\n".join([header, *rows, ""]))
    return path


def warnings(path):
    return [value for what, value in describe_trace(load(path)) if what == "warning"]


def test_what_is_harmless_is_described_with_a_warning(tmp_path):
    assert warnings(trace(tmp_path, "3,a,1,2")) == ["the id has one sample, so nobody is seen to move"]
    both = trace(tmp_path, "0,a,1,2", "1e-6,a,1.0001,2", "2e-6,a,1,2", f"{CENTURY},a,1,2")
    fast = "a sample of an id every 1e-06 s; are the times in seconds?"
    assert warnings(both) == [fast, "it lasts 100.0 years; are the times in seconds?"]
    assert (
        dict(describe_trace(load(both)))["rounds"] == "none: more than 10,000,000 of 1e-06 s, which no study may have"
    )
    (leap,) = warnings(trace(tmp_path, "0,a,0,2", "1,a,900,2", "2,a,0,2"))
    assert leap.startswith("2 of 2 steps are faster than 150 m/s, up to 900 m/s (id 'a' until 1 s); are the columns")
    assert warnings(trace(tmp_path, *(f"{k},{name},{k},2" for k in range(100) for name in "ab"))) == []
    listed = trace(tmp_path, "0,1,0,1", f"0,{CENTURY},1,2", header="start,end,i,j")
    assert warnings(listed) == ["it lasts 100.0 years; are the times in seconds?"]


def test_more_rounds_than_a_study_may_have_are_refused(tmp_path):
    start = time.process_time()
    long = load(trace(tmp_path, "0,a,1,2", "1,a,2,2", f"{CENTURY},a,1,2"), "csv")
    listed = load(trace(tmp_path, "0,1,0,1", f"0,{CENTURY},1,2", header="start,end,i,j"))
    for dt in (1e-6, 5e-324):
        with pytest.raises(UserError, match=r"which makes [\d,]+ rounds; at most 10,000,000 are allowed"):
            resample(long, dt)
        with pytest.raises(UserError, match=r"the contacts span [\d,]+ rounds of dt .*; at most 10,000,000 are allow"):
            contact_table(listed, 3, dt=dt)
    assert time.process_time() - start < 5


def test_more_places_or_links_than_the_memory_takes_are_refused(tmp_path):
    places = load(trace(tmp_path, "0,a,1,2", "9000000,a,1,2"))
    with pytest.raises(UserError, match=r"9,000,000 rounds of 1,000 clients are 9,000,001,000 places; at most 500,000"):
        resample(places, 1.0, num_clients=1000)
    rows = [f"0,9000000,{i},{i + 1}" for i in range(20)]
    listed = load(trace(tmp_path, *rows, header="start,end,i,j"))
    with pytest.raises(UserError, match=r"dt is 1, which makes 180,000,000 links of the contacts; at most 100,000,000"):
        contact_table(listed, 30)
    one = load(trace(tmp_path, "0,9000000,0,1", header="start,end,i,j"))
    with pytest.raises(UserError, match="num_clients is 2,000,000; that is too many for 9,000,000 rounds"):
        contact_table(one, 2_000_000)


def test_contacts_that_end_far_behind_the_rounds_are_cut_off(tmp_path):
    """Their rounds have no number of 64 bits."""
    listed = load(trace(tmp_path, "0,1,0,1", "1,1e300,1,2", "1e299,1e300,0,1", header="start,end,i,j"))
    table = contact_table(listed, 3, rounds=3)
    assert np.diff(table.offsets).tolist() == [2, 2, 2]
    assert table.edges[:2].tolist() == [[0, 1], [1, 0]]


def test_bombs_are_refused(tmp_path, monkeypatch):
    """An endless line, an endless element, and more samples than a trace may have."""
    monkeypatch.setattr(reading, "LONGEST_LINE", 2**20)
    monkeypatch.setattr(sumo, "LONGEST_LINE", 2**20)
    for ending, begin, says in (
        ("csv", b"time,id,x,y\n0,a,1,2\n", "it has more than 1,048,576 characters, which is no line of a trace"),
        ("movements", b"", "it has more than 1,048,576 characters, which is no line of a trace"),
        ("tcl", b"", "it has more than 1,048,576 characters, which is no line of a trace"),
        ("xml", b'<fcd-export><timestep time="', "an element has more than 1,048,576 bytes"),
    ):
        path = tmp_path / f"bomb.{ending}.gz"
        path.write_bytes(gzip.compress(begin + b"0" * 2**24))
        assert says in told(load, path)
    monkeypatch.setattr(reading, "MOST_SAMPLES", 50)
    for name, head, row in (
        ("a.csv", "time,id,x,y\n", "{k},a,1,2\n"),
        ("b.csv", "start,end,i,j\n", "0,{k},1,2\n"),
        ("a.movements", "", "0 1 2 1 3 4 2 5 6\n"),
        ("a.tcl", "", "# nothing\n"),
        ("a.xml", "<fcd-export>", '<timestep time="{k}"><vehicle id="a" x="1" y="2"/></timestep>'),
    ):
        (tmp_path / name).write_text(head + "".join(row.format(k=k) for k in range(100)))
        with pytest.raises(UserError, match=r"more than 50 \w+, which is the most that a trace may have"):
            load(tmp_path / name)
    one = trace(tmp_path, "0,1,2147483646", header="round,i,j")
    assert "line 2: j is 2147483646; it must be from 0 to 999999" in told(load, one)
