"""One line for every way in which a trace file can be wrong: the file, the place in it, and what is the matter.

What all formats share, as numbers that are none, is here of one of them; `test_any_format.py` has faults of all.
"""

import gzip
import time

from small import told

from mdfl_jax.traces import load
from mdfl_jax.traces.formats.sumo import streets_of_network

STEP = '<fcd-export>\n<timestep time="0">\n<vehicle id="a" x="1" y="2"/>\n</timestep>\n'
NS2 = "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n"
ENTITY = '<?xml version="1.0"?>\n<!DOCTYPE f [<!ENTITY e SYSTEM "file:///etc/hostname">]>\n'
OUTSIDE = '<vehicle id="b" x="1" y="2"/></fcd-export>'
AGAIN = '<vehicle id="a" x="1" y="3"/></timestep></fcd-export>'
DEGREES = '<vehicle id="b" lon="16.4" lat="48.2"/></timestep></fcd-export>'
SWAPPED = STEP.replace('x="1" y="2"', 'lon="48.2" lat="116.4"')

CASES = [
    ("a.xml", STEP + '<timestep time="1"><vehicle id="a" x=', "line 5: the file is cut off"),
    ("a.xml", STEP, "the file is cut off: it ends within an element"),
    ("a.xml", "<routes><vehicle/></routes>", "line 1: the root element is <routes>; FCD output"),
    ("a.xml", STEP + OUTSIDE, "line 5: <vehicle> stands outside of a <timestep>"),
    ("a.xml", STEP + '<timestep time="0"/></fcd-export>', "line 5: time goes from 0 to 0; times"),
    ("a.xml", STEP.replace('"2"', '"two"') + "</fcd-export>", "line 3: y is 'two'; it must be a number"),
    ("a.xml", STEP.replace('"2"', '"nan"') + "</fcd-export>", "id 'a' at time 0: y is nan; it must be finite"),
    (
        "a.xml",
        STEP.replace("</timestep>", AGAIN),
        "line 4: id 'a' has a second sample at time 0; its first one is in line 3",
    ),
    ("a.xml", ENTITY + STEP + "</fcd-export>", "a document type (DOCTYPE, entities) is refused"),
    ("a.xml", STEP + DEGREES, "<vehicle> has no attribute x"),
    ("a.xml", STEP.replace('"a"', '"&e;"') + "</fcd-export>", "it is not XML (undefined entity)"),
    ("a.xml", '<fcd-export><timestep time="0"/></fcd-export>', "it holds no samples"),
    ("a.xml", SWAPPED + "</fcd-export>", "latitude 116.4 is outside -90 to 90; are longitude and latitude swapped?"),
    ("a.movements", "0 1 2\n0 1 2 3\n", "line 2: 4 numbers; a waypoint has time, x, y (in space"),
    ("a.movements", "0 1 2 5 1 2 4 1 2\n", "line 1: id '0' goes back from time 5 to 4; times must grow"),
    ("a.tcl", "$node_(3) set X_ 0\n", "node 3 is given no first place: set Y_ is missing"),
    ("a.tcl", NS2 + '$ns_ at 1.0 "$node_(0) setdest 1', "line 3: '$ns_ at 1.0 \"$node_(0) setdest 1' is not a"),
    ("a.tcl", NS2 + '$ns_ at 1 "$node_(0) setdest 1 1 -2"\n', "line 3: speed is -2; it must"),
    ("a.csv", "time,id,x,y\n0,a,1,2\n1,a,1\n", "line 3: 3 columns where the first line has 4"),
    ("a.csv", "time,id,x\n0,a,1\n", "line 1: columns time,id,x; they must be time,id,x,y or time,id,lon,lat"),
    ("a.csv", "time,id,x,y\n0,a,,2\n", "line 2: x is ''; it must be a number"),
    ("a.csv", "time,id,x,y\n0,a,1,2\ninf,a,1,2\n", "line 3: time is inf; it must be finite"),
    ("a.csv", "time,id,x,y\n3,a,1,2\n2,a,1,2\n", "line 3: id 'a' goes back from time 3 to 2; times must grow"),
    ("a.csv", "time,id,x,y\n0,a,1,2\n1,a,1e300,2\n", "id 'a' at time 1: x is inf; it must be finite"),
    ("a.csv", "round,i,j\n0,1,2.5\n", "line 2: j is '2.5'; it must be a whole number"),
    ("a.csv", "round,i,j\n0,1,2\n4,3,3\n", "line 3: client 3 is in contact with itself"),
    ("a.csv", "start,end,i,j\n5,4,1,2\n", "line 2: the contact starts at 5 and ends at 4, before that"),
    ("a.csv", "round,i,j\n", "it holds no contacts"),
    ("a.csv", f"time,id,x,y\n{2**60},a,1,2\n", f"line 2: time is {2**60}; a whole number must be below 2^53"),
    ("a.csv", f"start,end,i,j\n{-(2**53)},5,1,2\n", f"line 2: start is {-(2**53)}; a whole number must"),
    ("a.csv", f"time_ms,id,x,y\n{2**60},a,1,2\n", f"line 2: time is {2**60}; a whole number must"),
    ("a.csv", "time,id,lon,lat\n0,a,591.7,8.3\n", "longitude 591.7 is outside -180 to 180; are its places metres? Col"),
    ("a.csv", "time,id,x,y\n00:00:04,a,1,2\n", "time is '00:00:04'; it must be a number: seconds, or a date with a"),
    ("a.parquet", "PAR1", "it is of Parquet, which is not read; pandas.read_parquet(FILE).to_csv"),
    ("a", "", "the file is empty"),
    (
        "a",
        "Call me Ishmael.\n",
        "neither its ending nor a header says its format (it begins with 'Call me Ishmael.'); tr",
    ),
    ("a", "20 1 2\n40 1 2\n", "names the format: bonnmotion, cabspotting, contacts, csv, csv_geo, geolife, gpx,"),
    (
        "a.csv",
        "0,a,1,2\n1,a,1,2\n",
        "without a header, and trace.columns=time,id,lon,lat or trace.columns=time",
    ),
]

# Tables, people in contact and other public formats; what is so of any format is above.
PLT = "Geolife trajectory\nWGS 84\n\n\n\n0\n"
RISES = STEP.replace('"2"', '"2" z="5"') + '<timestep time="4"><vehicle id="a" x="1" y="2"/></timestep></fcd-export>'
BARE = STEP.replace('x="1" y="2"', 'x="11.0" y="48.2"') + (
    '<timestep time="1"><vehicle id="a" x="11.1" y="48.2"/></timestep></fcd-export>'
)
FAR = "time,id,x,y\n0,a,6.1,45.2\n10,a,6.1001,45.2\n20,b,14.9,54.1\n30,b,14.9,54.1\n"
CASES += [
    ("a", "when,who,x,y\n0,a,1,2\n", "columns when,who,x,y; they must be time,id,x,y or time,id,lon,lat"),
    ("a", "t,seconds,id,x,y\n0,0,a,1,2\n", "t and seconds may both be the time; trace.columns names them"),
    ("a.csv", "t,timestamp,i,j\n0,0,1,2\n", "line 1: t and timestamp may both be the time; trace.columns names them"),
    ("a.csv", "time,user1,node1,j\n0,5,1,2\n", "user1 and node1 may both be the i; trace.columns names them in the"),
    ("a", "time,id,x,y,lon,lat\n0,a,1,2,3,4\n", "it has x and y, and lon and lat; trace.columns names them"),
    ("a", "time;id;x;y\n0,5;a;1.5;2\n", "'0,5': some numbers have decimal points and others decimal commas"),
    ("a", "time,id,x,y\n01/02/2024 00:00:00,a,1,2\n", "'01/02/2024 00:00:00' may begin with its day or with its month"),
    ("a.csv", "frame,id,x,y\n1,a,1,2\n", "column frame counts frames; a column time must have their seconds"),
    ("a", FAR, "look like degrees"),
    ("a.xml", BARE, "trace.format=sumo reads metres; trace.format=sumo_geo reads degrees"),
    ("a.xml", "<gpx></gpx>", "it may be sumo (a name that ends in .xml) or gpx (the text '<gpx'); trace.for"),
    ("a.plt", PLT + "39.9,116.3,0,1,39744.1,2008-10-23\n", "line 7: 6 columns; a .plt has 7"),
    ("a.plt", PLT + "39.9,116.3,0,1,39744.1,23. Oct 2008,02:53\n", "time is '23. Oct 2008 02:53'"),
    ("a.gpx", "<gpx><trk><trkpt lat='1' lon='2'/></trk></gpx>", "no point of its tracks has a <time>"),
    ("a.gpx", "<!DOCTYPE gpx><gpx/>", "a document type (DOCTYPE, entities) is refused; GPX has none"),
    ("a.one", "0 20 0 9 0 9\n0 a 1 2\n0 a 1\n", "line 3: 3 words; a sample has time id x y"),
    ("a.one", "0 4 0 10 0 2 0 45\n0 7 0 2 5\n4 7 10 2\n", "line 3: id '7' at time 4 has no z, and the samples be"),
    ("a.csv", "time,id,x,y,z\n0,a,0,2,nan\n4,a,1,2,0\n", "line 2: id 'a' at time 0: z is nan; it must be finite"),
    ("a.xml", RISES, "id 'a' at time 4 has no z, and the samples before it have one; all have one, or no"),
    ("a.tcl", NS2 + "$node_(0) set Z_ 5\n" + NS2.replace("0)", "1)"), "node 1 has no height, and others have: set Z_"),
    ("a.net.xml", "<fcd-export/>", "line 1: the root element is <fcd-export>; a network of SUMO has <net>"),
    ("a.net.xml", "<net></net>", "the network has no edge with a lane"),
    ("a.net.xml", "<net><edge id='a'><lane shape='0,0 1'/></edge></net>", "the point '1'; it must be x,y or x,y,z"),
    ("a.net.xml", "<net>", "the file is cut off"),
]

OF_FORMAT = [  # what only trace.format says
    ("csv", "0,a,1,2\n1,a,1,2\n", "line 1: its first line is no header; trace.columns names them in the order"),
    ("contacts", "0,1,2\n1,2,3\n", "line 1: its first line is no header; trace.columns names them in the order"),
    ("cabspotting", "37.7 -122.3 0 1213084687\n37.7 -122.3 1\n", "line 2: 3 columns where the first line has 4"),
    ("sociopatterns", "20 1 2\n40 1 1\n", "line 2: badge 1 is in contact with itself"),
    ("one_conn", "5 CONN 1 2 up\n6 CONN 2 1 up\n", "line 2: the connection of 1 and 2 comes up, and is up since"),
    ("one_conn", "5 CONN 1 2 up\n4 CONN 2 1 down\n", "line 2: time goes back from 5 to 4"),
]


def of_file(path):
    """The one line with which a file is refused, which names it."""
    line = told(streets_of_network if path.name.endswith(".net.xml") else load, path)
    assert repr(str(path)) in line
    return line


def test_a_wrong_file_is_one_line(tmp_path):
    for name, text, expected in CASES:
        (tmp_path / name).write_text(text)
        assert expected in of_file(tmp_path / name), text
    for name, text, expected in OF_FORMAT:
        (tmp_path / "a").write_text(text)
        assert expected in told(load, tmp_path / "a", name), text
    whole = gzip.compress((STEP + "</fcd-export>").encode())
    for name, content, expected in (
        ("cut.xml.gz", whole[:-20], "the file is cut off: its gzip stream has no end"),
        ("damaged.xml.gz", whole[:20] + bytes([whole[20] ^ 0xFF]) + whole[21:], "the gzip stream is damaged"),
        ("bytes.csv", b"time,id,x,y\n0,\xff\x01,1,2\n", "it is not text: byte 0xff is not UTF-8"),
    ):
        (tmp_path / name).write_bytes(content)
        assert expected in of_file(tmp_path / name)
    assert "there is no such file" in of_file(tmp_path / "nowhere.xml")
    (tmp_path / "empty").mkdir()
    assert "the folder holds no files" in of_file(tmp_path / "empty")
    path, start = tmp_path / "a.xml", time.process_time()
    laughs = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 10))
    path.write_text(f'<!DOCTYPE f [<!ENTITY l0 "ha">{laughs}]><fcd-export>&l9;</fcd-export>')
    assert "line 1: a document type (DOCTYPE, entities) is refused" in of_file(path)
    path.write_text("<fcd-export>" + "".join(f'<timestep time="{k}">' for k in range(100_000)))
    assert "the file is cut off" in of_file(path)
    assert time.process_time() - start < 2
