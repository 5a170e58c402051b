"""One line for every way in which a trace file can be wrong: the file, the place in it, and what is the matter.

What all formats share, as numbers that are none, is here of one of them; `test_any_format.py` has faults of all.
"""

import gzip

import pytest
from small import told

from mdfl_jax.traces import load

STEP = '<fcd-export>\n<timestep time="0">\n<vehicle id="a" x="1" y="2"/>\n</timestep>\n'
NS2 = "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n"
ENTITY = '<?xml version="1.0"?>\n<!DOCTYPE f [<!ENTITY e SYSTEM "file:///etc/hostname">]>\n'

CASES = {
    # SUMO
    "a.xml: cut within a tag": (STEP + '<timestep time="1"><vehicle id="a" x=', "line 5: the file is cut off"),
    "b.xml: cut between tags": (STEP, "the file is cut off: it ends within an element"),
    "c.xml: root": ("<routes><vehicle/></routes>", "line 1: the root element is <routes>; FCD output"),
    "d.xml: unknown element": (STEP + "<lorry/></fcd-export>", "line 5: unknown element <lorry>; known: fcd-export,"),
    "f.xml: between steps": (
        STEP + '<vehicle id="b" x="1" y="2"/></fcd-export>',
        "line 5: <vehicle> stands outside of a <timestep>",
    ),
    "g.xml: times equal": (
        STEP + '<timestep time="0"/></fcd-export>',
        "line 5: time goes from 0 to 0; times",
    ),
    "k.xml: no x": ('<fcd-export><timestep time="0"><vehicle id="a" y="2"/></timestep></fcd-export>', "no attribute x"),
    "m.xml: y in words": (STEP.replace('"2"', '"two"') + "</fcd-export>", "line 3: y is 'two'; it must be a number"),
    "n.xml: nan": (STEP.replace('"2"', '"nan"') + "</fcd-export>", "id 'a' at time 0: y is nan; it must be finite"),
    "p.xml: twice": (
        STEP.replace("</timestep>", '<vehicle id="a" x="1" y="3"/></timestep></fcd-export>'),
        "line 4: id 'a' has a second sample at time 0",
    ),
    "q.xml: entity": (ENTITY + STEP + "</fcd-export>", "a document type (DOCTYPE, entities) is refused"),
    "s.xml: degrees after metres": (
        STEP + '<vehicle id="b" lon="16.4" lat="48.2"/></timestep></fcd-export>',
        "<vehicle> has no attribute x",
    ),
    "t.xml: metres after degrees": (
        STEP.replace('x="1" y="2"', 'lon="16.4" lat="48.2"') + '<vehicle id="b" x="1" y="2"/></timestep></fcd-export>',
        "<vehicle> has no attribute lon",
    ),
    "s.xml: no such entity": (STEP.replace('"a"', '"&e;"') + "</fcd-export>", "it is not XML (undefined entity)"),
    "t.xml: no XML": ("time;id\n", "it may be sumo (a name that ends in .xml) or csv (a header of columns); trace.for"),
    "t.xml: nor a table": ("time\n", "it is not XML"),
    "u.xml: no samples": ('<fcd-export><timestep time="0"/></fcd-export>', "it holds no samples"),
    "v.xml: geographic swapped": (
        STEP.replace('x="1" y="2"', 'lon="48.2" lat="116.4"') + "</fcd-export>",
        "id 'a' at time 0: latitude 116.4 is outside -90 to 90; are longitude and latitude swapped?",
    ),
    # BonnMotion
    "a.movements: not threes": ("0 1 2\n0 1 2 3\n", "line 2: 4 numbers; a waypoint has time, x, y (in space"),
    "b.movements: times": ("0 1 2 5 1 2 4 1 2\n", "line 1: id '0' goes back from time 5 to 4; times must grow"),
    # ns-2
    "a.tcl: no place": ("$node_(3) set X_ 0\n", "node 3 is given no first place: set Y_ is missing"),
    "b.tcl: cut off": (
        NS2 + '$ns_ at 1.0 "$node_(0) setdest 1',
        "line 3: '$ns_ at 1.0 \"$node_(0) setdest 1' is not a",
    ),
    "d.tcl: negative speed": (
        NS2 + '$ns_ at 1 "$node_(0) setdest 1 1 -2"\n',
        "line 3: speed is -2; it must",
    ),
    "e.tcl: negative time": (
        NS2 + '$ns_ at -1 "$node_(0) setdest 1 1 2"\n',
        "line 3: time is -1; it must",
    ),
    "g.tcl: leap": (
        NS2 + '$ns_ at 9 "$node_(0) set X_ 5"\n',
        "line 3: '$ns_ at 9 \"$node_(0) set X_ 5\"' is not a known",
    ),
    # CSV
    "a.csv: columns": ("time,id,x,y\n0,a,1,2\n1,a,1\n", "line 3: 3 columns where the first line has 4"),
    "b.csv: header": ("time,id,x\n0,a,1\n", "line 1: columns time,id,x; they must be time,id,x,y or time,id,lon,lat"),
    "d.csv: empty field": ("time,id,x,y\n0,a,,2\n", "line 2: x is ''; it must be a number"),
    "g.csv: infinite time": ("time,id,x,y\n0,a,1,2\ninf,a,1,2\n", "line 3: time is inf; it must be finite"),
    "h.csv: times": ("time,id,x,y\n3,a,1,2\n2,a,1,2\n", "line 3: id 'a' goes back from time 3 to 2; times must grow"),
    "l.csv: longitude": (
        "time,id,lon,lat\n0,a,16,48\n5,a,190.5,48\n",
        "id 'a' at time 5: longitude 190.5 is outside",
    ),
    "m.csv: too large": ("time,id,x,y\n0,a,1,2\n1,a,1e300,2\n", "id 'a' at time 1: x is inf; it must be finite"),
    # Contacts
    "n.csv: whole": ("round,i,j\n0,1,2.5\n", "line 2: j is '2.5'; it must be a whole number"),
    "o.csv: negative": ("round,i,j\n0,-1,2\n", "line 2: i is -1; it must be from 0"),
    "p.csv: itself": ("round,i,j\n0,1,2\n4,3,3\n", "line 3: client 3 is in contact with itself"),
    "q.csv: ends before": ("start,end,i,j\n5,4,1,2\n", "line 2: the contact starts at 5 and ends at 4, before that"),
    "r.csv: no contacts": ("round,i,j\n", "it holds no contacts"),
    "t.csv: nan": ("start,end,i,j\nnan,4,1,2\n", "line 2: start is nan; it must be finite"),
    # Any
    "empty": ("", "the file is empty"),
    "prose": (
        "Call me Ishmael.\n",
        "its format is not known from its beginning 'Call me Ishmael.'; trace.format names one: bonnmotion,",
    ),
    "blank": ("\n \n", "its format is not known from its beginning ''"),
}


def of_file(path):
    """The one line with which a file is refused, which names it."""
    line = told(load, path)
    assert repr(str(path)) in line
    return line


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_file_is_one_line(tmp_path, case):
    text, expected = CASES[case]
    path = tmp_path / case.split(":")[0]
    path.write_text(text)
    assert expected in of_file(path)


def test_gzip_that_is_cut_off_or_damaged(tmp_path):
    whole = gzip.compress((STEP + '<timestep time="1"/>' * 1 + "</fcd-export>").encode())
    cut, damaged = tmp_path / "cut.xml.gz", tmp_path / "damaged.xml.gz"
    cut.write_bytes(whole[:-20])
    damaged.write_bytes(whole[:20] + bytes([whole[20] ^ 0xFF]) + whole[21:])
    assert "the file is cut off: its gzip stream has no end" in of_file(cut)
    assert "the gzip stream is damaged" in of_file(damaged)


def test_what_is_no_file(tmp_path):
    assert "there is no such file" in of_file(tmp_path / "nowhere.xml")
    assert "the folder holds no files" in of_file(tmp_path)


def test_what_is_no_text(tmp_path):
    path = tmp_path / "bytes.csv"
    path.write_bytes(b"time,id,x,y\n0,\xff\xfe,1,2\n")
    assert "it is not text: byte 0xff is not UTF-8" in of_file(path)
