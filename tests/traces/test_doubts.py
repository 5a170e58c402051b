"""Files that may be of several formats or units: refused in one line that says how to decide, or told."""

import pytest
from small import told

from mdfl_jax.traces import Contacts, detect, load
from mdfl_jax.traces.describe import describe, notes


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.xml", "<gpx></gpx>", "it may be sumo (a name that ends in .xml) or gpx (the text '<gpx'); trace.for"),
        ("a.tcl", "20 1 2\n40 1 3\n60 2 3\n", "it may be ns2 (a name that ends in .tcl) or sociopatterns (times in s"),
        ("a", "0,1,5,7\n1,1,6,8\n", "it may be contacts (columns that may be start,end,i,j) or csv (columns without a"),
        ("a", "0,1,2\n1,2,3\n", "its columns may be round,i,j or i,j,round; trace.columns says which"),
        ("a", "20,1,2\n40,3,1\n60,2,3\n", "it may be contacts (columns that may be round,i,j) or sociopatterns (ti"),
        ("a", "0,1,2.5\n", "its format is not known from its beginning '0,1,2.5'"),
        ("a.movements", "0 1 2 9 3 4 5 9\n" * 2, "8 numbers; a waypoint has time, x, y (in space, the first"),
        ("a", "7,1.5,3,4\n8,1.5,3,4\n", "if its second column has ids, one of them is 1.5; trace.columns says it"),
        ("a", "7,1,5,4\n8,2,5,4\n", "no id has a second sample; trace.columns says it"),
        ("a", "time,id,x,y\n0,a,6.1,45.2\n10,a,6.1001,45.2\n20,b,14.9,54.1\n30,b,14.9001,54.1\n", "look like degrees"),
    ],
)  # fmt: skip
def test_doubt_is_one_line(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    assert says in told(load, tmp_path / name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0,0,1\n0,1,2\n1,0,2\n", "columns that may be round,i,j; round is column 1, i is column 2, j is column 3 (th"),
        ("0,1,0\n1,2,0\n0,2,1\n", "columns that may be i,j,round; round is column 3, i is column 1, j is column 2 (th"),
        ("j,round,i,w\n1,0,0,7\n", "a header with i and j; round is column 2, i is column 3, j is column 1 (by the he"),
    ],
)  # fmt: skip
def test_the_columns_of_a_contact_list_are_told(tmp_path, text, said):
    (tmp_path / "a").write_text(text)
    found = load(tmp_path / "a")
    assert isinstance(found, Contacts)
    assert said in found.why
    assert said in dict(describe(found))["format"]
    assert said in notes(found)[0]


def test_columns_decide(tmp_path):
    (tmp_path / "a").write_text("0,1,2\n1,2,3\n")
    assert load(tmp_path / "a", columns="round,i,j").pair.tolist() == [[1, 2], [2, 3]]
    assert load(tmp_path / "a", columns="i,j,round").pair.tolist() == [[0, 1], [1, 2]]
    (tmp_path / "b").write_text("0,1,5,7\n1,1,6,8\n")
    assert load(tmp_path / "b", columns="start,end,i,j").pair.tolist() == [[5, 7], [6, 8]]
    assert load(tmp_path / "b", columns="time,id,x,y").ids == ("1",)
    (tmp_path / "c.movements").write_text("0 1 2 3 4 9 8 5 9 11 7 1\n")
    assert load(tmp_path / "c.movements").times.tolist() == [0, 3, 8, 11]
    assert load(tmp_path / "c.movements", columns="time,x,y,z").times.tolist() == [0, 4, 9]


def test_unix_times_of_people_need_not_be_multiples_of_twenty(tmp_path):
    """The times of some exhibitions are 19 modulo 20."""
    (tmp_path / "a").write_text("1240913739\t10\t31\n1240913759\t10\t31\n1240913799\t4\t31\n")
    assert detect(tmp_path / "a")[0] == "sociopatterns"


def test_milliseconds_are_told(tmp_path):
    rows = [f"{1000 * t},{name},{10 * t},{k}" for t in range(20) for k, name in enumerate("ab")]
    (tmp_path / "a.csv").write_text("\n".join(["time,id,x,y", *rows, ""]))
    warned = [value for what, value in describe(load(tmp_path / "a.csv")) if what == "warning"]
    slow = "a mean speed of 0.01 m/s of those who move; are the times in milliseconds, or the places in degrees or"
    assert warned == [f"{slow} kilometres?"]
    assert warned[0] in notes(load(tmp_path / "a.csv"))
    unix = [f"{1_700_000_000_000 + 1000 * t},a,{1e4 * t},0" for t in range(5)]
    (tmp_path / "b.csv").write_text("\n".join(["time,id,x,y", *unix, ""]))
    begins = notes(load(tmp_path / "b.csv"))[1]
    assert begins == "it begins at 1700000000000 s, some thousand years after 1970; are the times in milliseconds?"


def test_every_format_says_why(tmp_path):
    """A reader that is believed names its sign, and one that is asked for says so."""
    (tmp_path / "a.csv").write_text("time,id,x,y\n0,a,1,2\n9,a,8,2\n")
    assert load(tmp_path / "a.csv").why == (
        "a header of columns; time is column 1, id is column 2, x is column 3, y is column 4 (by the header)"
    )
    assert load(tmp_path / "a.csv", "csv").why.startswith("as trace.format says; ")
