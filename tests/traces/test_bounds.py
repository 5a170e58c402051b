"""Traces and contact lists beyond all bounds: described with a warning where that is harmless, else refused."""

import gzip
import time

import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces import contact_table, load, reading, resample
from mdfl_jax.traces.describe import describe

CENTURY = 100 * 365 * 86_400


def trace(tmp_path, *rows, name="a.csv", header="time,id,x,y"):
    path = tmp_path / name
    path.write_text("\n".join([header, *rows, ""]))
    return path


def warnings(path):
    return [value for what, value in describe(load(path)) if what == "warning"]


def test_one_sample_is_described_with_a_warning(tmp_path):
    assert warnings(trace(tmp_path, "3,a,1,2")) == ["the id has one sample, so nobody is seen to move"]
    two = trace(tmp_path, "3,a,1,2", "4,b,1,2")
    assert warnings(two) == ["no id has more than one sample, so nobody is seen to move"]
    assert dict(describe(load(two)))["rounds"] == "none"
    with pytest.raises(UserError, match="the trace ends at 3 s, after 0"):
        resample(load(trace(tmp_path, "3,a,1,2")), 1.0)


def test_centuries_and_microseconds_are_described_with_warnings(tmp_path):
    slow = trace(tmp_path, "0,a,1,2", f"{3 * CENTURY},a,1,2")
    assert warnings(slow) == ["it lasts 300.0 years; are the times in seconds?"]
    fast = trace(tmp_path, "0,a,1,2", "1e-6,a,1.0001,2", "2e-6,a,1,2")
    assert warnings(fast) == ["a sample of an id every 1e-06 s; are the times in seconds?"]
    both = trace(tmp_path, "0,a,1,2", "1e-6,a,1.0001,2", "2e-6,a,1,2", f"{CENTURY},a,1,2")
    assert len(warnings(both)) == 2
    assert dict(describe(load(both)))["rounds"] == "none: more than 10,000,000 of 1e-06 s, which no study may have"
    leaps = trace(tmp_path, "0,a,0,2", "1,a,900,2", "2,a,0,2")
    assert warnings(leaps) == [
        "2 of 2 steps are faster than 150 m/s, up to 900 m/s (id 'a' until 1 s); are the columns, the times and the "
        "places what they seem?"
    ]
    usual = trace(tmp_path, *(f"{k},{name},{k},2" for k in range(100) for name in "ab"))
    assert warnings(usual) == []
    listed = trace(tmp_path, "0,1,0,1", f"0,{CENTURY},1,2", header="start,end,i,j")
    assert warnings(listed) == ["it lasts 100.0 years; are the times in seconds?"]


@pytest.mark.parametrize("dt", [1e-6, 5e-324])
def test_more_rounds_than_a_study_may_have_are_refused(tmp_path, dt):
    start = time.process_time()
    long = load(trace(tmp_path, "0,a,1,2", "1,a,2,2", f"{CENTURY},a,1,2"), "csv")
    with pytest.raises(UserError, match=r"which makes [\d,]+ rounds; at most 10,000,000 are allowed"):
        resample(long, dt)
    listed = load(trace(tmp_path, "0,1,0,1", f"0,{CENTURY},1,2", header="start,end,i,j"))
    with pytest.raises(UserError, match=r"the contacts span [\d,]+ rounds of dt .*; at most 10,000,000 are allowed"):
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


def test_a_client_beyond_those_of_a_study_is_refused(tmp_path):
    path = trace(tmp_path, "0,1,2147483646", header="round,i,j")
    with pytest.raises(UserError, match="line 2: j is 2147483646; it must be from 0 to 999999"):
        load(path)


@pytest.mark.parametrize("ending", ["csv", "movements", "tcl"])
def test_a_bomb_of_one_endless_line_is_refused(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(reading, "LONGEST_LINE", 2**20)
    path = tmp_path / f"bomb.{ending}.gz"
    path.write_bytes(gzip.compress(b"time,id,x,y\n0,a,1,2\n" * (ending == "csv") + b"0" * 2**24))
    with pytest.raises(UserError, match="it has more than 1,048,576 characters, which is no line of a trace"):
        load(path)


def test_a_bomb_of_one_endless_element_is_refused(tmp_path, monkeypatch):
    from mdfl_jax.traces.formats import sumo

    monkeypatch.setattr(sumo, "LONGEST_LINE", 2**20)
    path = tmp_path / "bomb.xml.gz"
    path.write_bytes(gzip.compress(b'<fcd-export><timestep time="' + b"0" * 2**24))
    with pytest.raises(UserError, match="an element has more than 1,048,576 bytes"):
        load(path)


@pytest.mark.parametrize(
    ("name", "head", "row"),
    [
        ("a.csv", "time,id,x,y\n", "{k},a,1,2\n"),
        ("a.csv", "start,end,i,j\n", "0,{k},1,2\n"),
        ("a.movements", "", "0 1 2 1 3 4 2 5 6\n"),
        ("a.tcl", "", "# nothing\n"),
        ("a.xml", "<fcd-export>", '<timestep time="{k}"><vehicle id="a" x="1" y="2"/></timestep>'),
    ],
)
def test_more_samples_than_a_trace_may_have_are_refused(tmp_path, monkeypatch, name, head, row):
    monkeypatch.setattr(reading, "MOST_SAMPLES", 50)
    (tmp_path / name).write_text(head + "".join(row.format(k=k) for k in range(100)))
    with pytest.raises(UserError, match=r"more than 50 \w+, which is the most that a trace may have"):
        load(tmp_path / name)


LAUGHS = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 10))
XML = {
    "billion laughs": f'<!DOCTYPE f [<!ENTITY l0 "ha">{LAUGHS}]><fcd-export>&l9;</fcd-export>',
    "quadratic": f'<!DOCTYPE f [<!ENTITY a "{"a" * 10**5}">]><fcd-export>{"&a;" * 10**4}</fcd-export>',
    "parameter entity": '<!DOCTYPE f [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><fcd-export/>',
}


@pytest.mark.parametrize("name", XML)
def test_entities_that_expand_are_refused_where_they_are_declared(tmp_path, name):
    path = tmp_path / "a.xml"
    path.write_text(XML[name])
    start = time.process_time()
    with pytest.raises(UserError, match=r"line 1: a document type \(DOCTYPE, entities\) is refused"):
        load(path)
    assert time.process_time() - start < 2


def test_xml_that_is_nested_too_deeply_is_one_line(tmp_path):
    path = tmp_path / "a.xml"
    path.write_text("<fcd-export>" + "".join(f'<timestep time="{k}">' for k in range(100_000)))
    with pytest.raises(UserError, match="the file is cut off"):
        load(path)
