"""Small files with a trait of those that people bring: of simulators, receivers, ships, badges. Worked out by hand."""

import numpy as np
import pytest
from small import told

from mdfl_jax.contrib.describe.traces import describe_trace
from mdfl_jax.traces import Contacts, contact_table, load
from mdfl_jax.traces.plausible import trace_notes
from tests.traces.test_readers import samples

STEP = '<timestep time="{t}"><vehicle id="0" x="{x}" y="0" type="car"/><person id="0" x="1000" y="{t}"/></timestep>'


def contacts(loaded):
    """[(start, end, i, j)] by the names that the file has."""
    assert isinstance(loaded, Contacts)
    names = loaded.ids or tuple(map(str, range(int(loaded.pair.max()) + 1)))
    return [(s, e, names[i], names[j]) for s, e, (i, j) in zip(loaded.start, loaded.end, loaded.pair)]


def test_a_vehicle_and_a_person_of_one_id_are_two_nodes(tmp_path):
    path = tmp_path / "a.xml"
    path.write_text("<fcd-export>" + "".join(STEP.format(t=t, x=10 * t) for t in range(3)) + "</fcd-export>")
    trace = load(path)
    assert samples(trace)["person 0", 2] == (1000, 2)
    assert (trace.ids, trace.kinds) == (("0", "person 0"), ("car", "person"))
    assert "id '0' is a vehicle and a person, which is called 'person 0'" in trace_notes(trace)[0]


def test_who_is_in_no_step_of_sumo_has_left(tmp_path):
    path = tmp_path / "a.xml"
    of_one = '<timestep time="{}"><vehicle id="b" x="1" y="0"/></timestep>'
    path.write_text("<fcd-export>" + STEP.format(t=0, x=0) + of_one.format(1) + of_one.format(2) + "</fcd-export>")
    said = "1 come after the beginning, 2 leave before the end: they are gone (trace.gaps=absent)"
    assert dict(describe_trace(load(path)))["presence"] == f"an id is seen for 0 s (median); {said}"


def test_tracks_of_a_gpx_are_one_node_unless_they_overlap(tmp_path):
    def track(name, start, untimed=0):
        bare = '<trkpt lat="47" lon="8"/>' * untimed
        times = (f"<time>2024-05-01T10:00:{start + k:02}Z</time>" for k in range(3))
        points = "".join(f'<trkpt lat="47.{k}" lon="8.0">{time}</trkpt>' for k, time in enumerate(times))
        return f"<trk><name>{name}</name><trkseg>{bare}{points}{bare}</trkseg></trk>"

    path = tmp_path / "a.gpx"
    path.write_text(f"<gpx>{track('rider 0', 0)}{track('rider 1', 1)}</gpx>")
    assert load(path).ids == ("rider 0", "rider 1")
    path.write_text(f"<gpx>{track('later', 10, untimed=2)}{track('before', 0)}</gpx>")
    trace = load(path)
    assert (trace.ids, len(trace.times)) == (("a",), 6)
    assert "points without a time at the ends of tracks are left out: 4" in trace.why
    path.write_text(path.read_text().replace("<time>2024-05-01T10:00:11Z</time>", ""))
    assert "a point within a track has no <time>, and is before this one" in told(load, path)


HEADERS = {
    "ais": ("MMSI,BaseDateTime,LAT,LON,SOG", "366,2024-01-02T00:00:{:02},47.5,8.25,1"),
    "danish ais": (
        "# Timestamp,Type of mobile,MMSI,Latitude,Longitude",
        "27/02/2024 00:00:{:02},Class A,366,47.5,8.25",
    ),
    "movebank": (
        "event-id,timestamp,location-long,location-lat,individual-local-identifier",
        "1,2024-01-02 00:00:{:02}.000,8.25,47.5,366",
    ),
    "drone": ("time(millisecond);droneID;longitude;latitude", "{}000;366;8,25;47,5"),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_columns_of_tools_are_known(tmp_path, kind):
    header, row = HEADERS[kind]
    (tmp_path / "a.csv").write_text("\n".join([header, *(row.format(k) for k in range(3)), header, row.format(9), ""]))
    trace = load(tmp_path / "a.csv")
    assert (trace.ids, trace.format, trace.origin) == (("366",), "csv_geo", (8.25, 47.5))
    assert np.diff(trace.times).tolist() == [1, 1, 7]
    assert "its header is left out in 1 later rows" in trace.why


def test_contacts_of_badges_and_simulators(tmp_path):
    """Blanks and tabs without a header, ids from one, and the same as events of connections."""
    wanted = [(100, 160, "1", "2"), (130, 190, "1", "3"), (200, 260, "2", "3")]
    files = {
        "ditl.txt": ("".join(f"{s} {e} {i} {j}\n" for s, e, i, j in wanted), "start,end,i,j"),
        "haggle.dat": ("".join(f"{i}\t{j}\t{s}\t{e}\t1\t0\n" for s, e, i, j in wanted), "i,j,start,end,n,gap"),
        "events.txt": (
            "90.0 C M1 0 5 1000\n100.0 CONN 1 2 up\n130 CONN 1 3 up\n160 CONN 1 2 down\n190 CONN 1 3 down\n"
            "200 CONN 2 3 up\n205 DE 2 3 M1\n260 CONN 2 3 down\n",
            "",
        ),
    }
    for name, (text, columns) in files.items():
        (tmp_path / name).write_text(text)
        loaded = load(tmp_path / name, "auto" if columns else "one_conn", columns)
        assert contacts(loaded) == wanted
        assert loaded.ids == ("1", "2", "3")
    with_rows = load(tmp_path / "ditl.txt", columns="start,end,i,j")
    assert contact_table(with_rows, 3, dt=10).edges.max() == 2
    assert "clients 1 to 3 are numbered 0 to 2" in with_rows.why


def test_a_scan_holds_until_the_next_one_or_as_long_as_is_said(tmp_path):
    rows = ["# timestamp,user_a,user_b,rssi", "0,3,5,-60", "0,4,-1,0", "300,3,4,-70", "900,5,4,-80", ""]
    (tmp_path / "bluetooth.csv").write_text("\n".join(rows))
    loaded = load(tmp_path / "bluetooth.csv")
    assert contacts(loaded) == [(0, 300, "3", "5"), (300, 600, "3", "4"), (900, 1200, "5", "4")]
    for said in ("steps of 300 s; each contact holds 300 s", "1 rows whose j is below 0 are left out"):
        assert said in loaded.why
    assert contacts(load(tmp_path / "bluetooth.csv", hold=60))[1] == (300, 360, "3", "4")
    (tmp_path / "rounds.csv").write_text("round,i,j\n0,0,1\n300,1,2\n900,0,2\n")
    assert "rounds in steps of 300; are they seconds of scans?" in trace_notes(load(tmp_path / "rounds.csv"))[1]
    assert "trace.hold is 5; it must be 0" in told(load, tmp_path / "rounds.csv", hold=5)


BARE = {
    "T-Drive": ("1,2008-02-02 15:36:08,116.5,39.9\n1,2008-02-02 15:41:08,116.6,39.9\n", ["id,time,lon,lat"]),
    "in metres": ("0 v1 691608.4 5334760.2\n1 v1 691609.4 5334760.9\n", ["time,id,x,y"]),
    "of a map or of a plane": (
        "v1;0;1,5;2,25;7\nv2;1;8,5;2,5;9\n",
        [f"id,time,{place},c5" for place in ("lon,lat", "lat,lon", "x,y")],
    ),
    "badges": ("20\t702\t720\n20\t701\t705\n40\t711\t733\n", ["time,i,j"]),
    "badges, time last": ("702\t720\t0\n701\t705\t0\n711\t701\t1\n", ["i,j,time"]),
    "seconds first": ("100 160 0 1\n130 190 0 2\n500 560 3 0\n", ["start,end,i,j"]),
    "CRAWDAD": ("1\t2\t100\t160\t1\t0\n4\t1\t500\t560\t1\t0\n", ["i,j,start,end,c5,c6"]),
}


@pytest.mark.parametrize("kind", BARE)
def test_of_a_table_without_a_header_it_is_said_what_to_type(tmp_path, kind):
    text, columns = BARE[kind]
    (tmp_path / "table.dat").write_text(text)
    said = " or ".join(f"trace.columns={of}" for of in columns)
    assert f"; it may be a table without a header, and {said} names its columns; trace.format names" in told(
        load, tmp_path / "table.dat"
    )
    for of in columns:
        found = load(tmp_path / "table.dat", columns=of)
        assert isinstance(found, Contacts) == ("i,j" in of)
        assert len(found.pair if isinstance(found, Contacts) else found.node) == text.count("\n")


@pytest.mark.parametrize("text", ["1 2\n3 4\n", "9 5 4\n8 6 2\n7 7 7\n", "a b c d\n", "5 4 7 3\n4 3 1 0\n", "1,5;2\n"])
def test_what_may_be_anything_is_told_without_a_guess(tmp_path, text):
    (tmp_path / "table.dat").write_text(text)
    assert "or trace.columns names the columns of a table, such as time,id,x,y" in told(load, tmp_path / "table.dat")


def test_repeated_samples_are_counted_and_two_places_at_one_time_name_both_rows(tmp_path):
    (tmp_path / "a.csv").write_text("time,id,x,y\n0,a,1,2\n0,a,1,2\n5,a,2,2\n")
    assert "repeated samples left out: 1" in load(tmp_path / "a.csv").why
    (tmp_path / "a.csv").write_text("time,id,x,y\n0,a,1,2\n0,a,1,3\n")
    said = "line 3: id 'a' has a second sample at time 0; its first one is in line 2"
    assert said in told(load, tmp_path / "a.csv")
