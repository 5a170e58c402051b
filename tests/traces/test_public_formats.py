"""The formats of public traces and of other simulators, against readings made with other tools."""

import gzip
import math
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import told

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces import Contacts, contact_table, detect, load
from mdfl_jax.traces.describe import describe
from mdfl_jax.traces.loading import EARTH_RADIUS

BEGIN = datetime(2008, 10, 23, 2, 53, 4, tzinfo=UTC)
Places = dict[str, list[tuple[float, float, float]]]  # node -> (seconds since BEGIN, longitude, latitude)


def geolife(folder, nodes: Places):
    """A folder for each user, with a file for each of her days, as the data set has them."""
    for node, rows in nodes.items():
        (folder / node / "Trajectory").mkdir(parents=True)
        for k, part in enumerate(np.array_split(np.arange(len(rows)), 2 if len(rows) > 1 else 1)):
            when = [BEGIN + timedelta(seconds=rows[i][0]) for i in part]
            days = [(at - datetime(1899, 12, 30, tzinfo=UTC)) / timedelta(days=1) for at in when]
            lines = [
                f"{rows[i][2]:.6f},{rows[i][1]:.6f},0,492,{day:.10f},{at:%Y-%m-%d,%H:%M:%S}"
                for i, at, day in zip(part, when, days)
            ]
            head = ["Geolife trajectory", "WGS 84", "Altitude is in Feet", "Reserved 3", "0,2,255,My Track,0", "0"]
            (folder / node / "Trajectory" / f"{k}.plt").write_text("\n".join([*head, *lines]) + "\n")
    return folder


def cabspotting(folder, nodes: Places):
    """A file for each taxi, the latest sample first."""
    for node, rows in nodes.items():
        lines = [f"{lat:.6f} {lon:.6f} 0 {int(BEGIN.timestamp() + t)}" for t, lon, lat in reversed(rows)]
        (folder / f"new_{node}.txt").write_text("\n".join(lines) + "\n")
    (folder / "_cabs.txt").write_text('<cab id="abboip" updates="24527"/>\n')
    return folder


def gpx(folder, nodes: Places):
    """A file for each node, written by the XML of the standard library."""
    for node, rows in nodes.items():
        root = ET.Element("gpx", version="1.1", creator="a watch", xmlns="http://www.topografix.com/GPX/1/1")
        ET.SubElement(ET.SubElement(root, "metadata"), "time").text = BEGIN.isoformat()
        segment = ET.SubElement(ET.SubElement(root, "trk"), "trkseg")
        for t, lon, lat in rows:
            point = ET.SubElement(segment, "trkpt", lat=f"{lat:.6f}", lon=f"{lon:.6f}")
            ET.SubElement(point, "ele").text = "4.0"
            ET.SubElement(point, "time").text = f"{BEGIN + timedelta(seconds=t):%Y-%m-%dT%H:%M:%SZ}"
        ET.ElementTree(root).write(folder / f"{node}.gpx", encoding="utf-8", xml_declaration=True)
    return folder


degrees = st.tuples(st.integers(-170_000_000, 170_000_000), st.integers(-80_000_000, 80_000_000))
walks = st.lists(st.tuples(st.integers(1, 600), st.integers(-900, 900), st.integers(-900, 900)), min_size=1, max_size=6)


@pytest.mark.parametrize("write", [geolife, cabspotting, gpx])
@settings(max_examples=15, deadline=None)
@given(start=degrees, moves=st.lists(walks, min_size=1, max_size=3))
def test_a_trace_that_is_written_is_read_back(write, tmp_path_factory, start, moves):
    """To the sixth digit of a degree, projected about the mean of all samples."""
    nodes: Places = {}
    for k, steps in enumerate(moves):
        t, x, y = 0, *start
        nodes[f"n{k}"] = []
        for dt, dx, dy in steps:
            t, x, y = t + dt, x + dx, y + dy
            nodes[f"n{k}"].append((t, x / 1e6, y / 1e6))
    trace = load(write(tmp_path_factory.mktemp(write.__name__), nodes))
    assert trace.format == f"{write.__name__}_geo"
    assert set(trace.ids) == set(nodes)
    table = pd.DataFrame(
        [(node, *row) for node, rows in nodes.items() for row in rows], columns=["id", "t", "lon", "lat"]
    )
    metres = math.radians(1) * EARTH_RADIUS
    table["x"] = (table.lon - table.lon.mean()) * metres * math.cos(math.radians(table.lat.mean()))
    table["y"] = (table.lat - table.lat.mean()) * metres
    found = pd.DataFrame(
        {"id": [trace.ids[k] for k in trace.node], "t": trace.sample_times, "x": trace.x, "y": trace.y}
    ).sort_values(["id", "t"], ignore_index=True)
    table = table.sort_values(["id", "t"], ignore_index=True)
    assert (found.t - BEGIN.timestamp()).tolist() == table.t.tolist()
    np.testing.assert_allclose(found[["x", "y"]], table[["x", "y"]], atol=1.5)  # float32 degrees of 170


def alone_of(folder):
    """The only track of a user of GeoLife."""
    return min(folder.rglob("*.plt"))


def test_one_file_is_one_node(tmp_path):
    nodes: Places = {"a": [(0, 116.31, 39.98), (5, 116.3101, 39.9801)]}
    folder = geolife(tmp_path, nodes)
    alone = load(alone_of(folder))
    assert alone.ids == ("a",)  # whose folder Trajectory it is in
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "Data").mkdir()
    two: Places = {"000": nodes["a"], "001": [(600, 116.4, 39.9), (605, 116.4001, 39.9)]}
    geolife(tmp_path / "whole" / "Data", two)
    assert load(tmp_path / "whole").ids == ("000", "001")
    lines = alone_of(tmp_path / "a").read_text()
    (tmp_path / "20081023.txt").write_text(lines)  # however it is called
    assert load(tmp_path / "20081023.txt").ids == ("20081023",)
    assert load(tmp_path / "20081023.txt").format == "geolife_geo"
    (tmp_path / "cabs").mkdir()
    cabspotting(tmp_path / "cabs", nodes)
    assert load(tmp_path / "cabs" / "new_a.txt").ids == ("a",)
    (tmp_path / "cabs" / "new_a.txt").rename(tmp_path / "cabs" / "a.dat")
    assert load(tmp_path / "cabs" / "a.dat").ids == ("a",)
    with pytest.raises(UserError, match=r"the folder holds no files new_NAME\.txt$"):
        load(tmp_path / "cabs")
    (tmp_path / "plt").mkdir()
    (tmp_path / "plt" / "day.txt").write_text(lines)
    with pytest.raises(UserError, match=r"the folder holds no files NAME\.plt$"):
        load(tmp_path / "plt")
    packed = tmp_path / "x.gpx.gz"
    (tmp_path / "g").mkdir()
    packed.write_bytes(gzip.compress(next(gpx(tmp_path / "g", nodes).glob("*.gpx")).read_bytes()))
    assert detect(packed)[0] == "gpx"
    assert load(packed).ids == ("x",)


def contacts_of(loaded, rounds, dt):
    """{(round, i, j)} of a list, by the names of the clients."""
    assert isinstance(loaded, Contacts)
    table = contact_table(loaded, len(loaded.ids), rounds, dt, start=0.0)
    owner = np.repeat(np.arange(rounds), np.diff(table.offsets))
    return {(int(k), loaded.ids[i], loaded.ids[j]) for k, (i, j) in zip(owner, table.edges) if i < j}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_sociopatterns_in_both_orders(tmp_path_factory, drawn):
    """Badges of any numbers, each step 20 seconds, with and without classes; a contact may be there twice."""
    folder, badges = tmp_path_factory.mktemp("tij"), [702, 33, 1201, 9, 88, 412]
    rows = sorted((step, badges[i], badges[j]) for step, i, j in drawn if i != j)
    if not rows:
        return
    (folder / "tij").write_text("".join(f"{20 * (k + 1)}\t{i}\t{j}\tA B\n" for k, i, j in rows))
    (folder / "ijt").write_text("".join(f"{i} {j} {k}\n" for k, i, j in rows))
    names = tuple(str(b) for b in sorted({b for _, *pair in rows for b in pair}))
    expected = {(k, str(min(i, j)), str(max(i, j))) for k, i, j in rows}
    for name, kind in (("tij", "sociopatterns"), ("ijt", "sociopatterns_ijt")):
        loaded = load(folder / name, kind)
        assert loaded.ids == names
        assert contacts_of(loaded, 10, 20.0) == expected
    assert detect(folder / "tij")[0] == "sociopatterns"
    assert "9" not in names or "clients 0 to" in dict(describe(loaded))["ids"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 90)), min_size=2, max_size=25))
def test_a_report_of_connections_is_the_list_of_its_intervals(tmp_path_factory, drawn):
    folder, now, since, events, intervals = tmp_path_factory.mktemp("one"), 0, {}, [], []
    for i, j, dt in drawn:
        if i == j:
            continue
        now, pair = now + dt, (min(i, j), max(i, j))
        events.append(f"{now}.0 CONN p{i} p{j} {'down' if pair in since else 'up'}\n")
        if pair in since:
            intervals.append((since.pop(pair), now, *pair))
        else:
            since[pair] = now
    if not events:
        return
    intervals += [(begun, now, *pair) for pair, begun in since.items()]
    (folder / "report.txt").write_text("".join(events))
    found = load(folder / "report.txt")
    assert isinstance(found, Contacts)
    names = sorted({k for *_, i, j in intervals for k in (i, j)})
    assert found.ids == tuple(f"p{k}" for k in names)
    rows = [(s, e, found.ids[i], found.ids[j]) for s, e, (i, j) in zip(found.start, found.end, found.pair)]
    assert sorted(rows) == sorted((s, e, f"p{i}", f"p{j}") for s, e, i, j in intervals)


def test_movements_of_the_one_simulator(tmp_path):
    path = tmp_path / "moves"
    path.write_text("0 20 0 100 0 100\n0 a 1 2\n0 b 5 5\n10 a 11 2\n20 b 5.5 6\n")
    trace = load(path)
    assert (trace.format, trace.ids, trace.times.tolist()) == ("one", ("a", "b"), [0, 10, 20])
    assert list(zip(trace.node.tolist(), trace.x.tolist(), trace.y.tolist())) == [
        (0, 1, 2), (1, 5, 5), (0, 11, 2), (1, 5.5, 6),
    ]  # fmt: skip
    path.write_text("0 20 0 100 0 100 0 9\n0 a 1 2 3\n10 a 11 2 4\n")
    assert load(path).x.tolist() == [1, 11]


PLT = "Geolife trajectory\nWGS 84\n\n\n\n0\n"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.plt", PLT + "39.9,116.3,0,1,39744.1,2008-10-23\n", "line 7: 6 columns; a .plt has 7"),
        ("a.plt", PLT + "39.9,116.3,0,1,39744.1,23.10.2008,02:53\n", "time is '23.10.2008 02:53'"),
        (
            "a.gpx",
            "<gpx><trk><trkseg><trkpt lat='1' lon='2'/></trkseg></trk></gpx>",
            "a point of a track has no <time>",
        ),
        (
            "a.gpx",
            "<gpx><trk><trkpt lat='1'><time>2008-10-23</time></trkpt></trk></gpx>",
            "lon is ''; it must be a number",
        ),
        ("a.gpx", "<!DOCTYPE gpx><gpx/>", "a document type (DOCTYPE, entities) is refused; GPX has none"),
        ("a.gpx", "<kml/>", "the root element is <kml>; GPX has <gpx>"),
        ("a", "37.7 -122.3 0 1213084687\n37.7 -122.3 1\n", "line 2: 3 numbers; a line has latitude"),
        ("a", "20 1 2\n40 1 1\n", "line 2: badge 1 is in contact with itself"),
        ("a", "20 1 2\n40 1 3\n20 1 2\n", "trace.format"),  # no format is likely
        ("a", "5 CONN 1 2 up\n6 CONN 2 1 up\n", "line 2: the connection of 1 and 2 comes up, and is up since line 1"),
        ("a", "5 CONN 1 2 up\n4 CONN 2 1 down\n", "line 2: time goes back from 5 to 4"),
        ("a", "5 CONN 1 2 down\n", "the connection of 1 and 2 goes down, and is not up"),
        ("a", "5 CONN 1 2 up\n6 CONN 1\n", "'6 CONN 1' is no event"),
        ("a", "0 20 0 9 0 9\n0 a 1 2\n0 a 1\n", "line 3: 3 words; a sample has time id x y"),
        ("a", "7 1 2\n9 5 3\n12 8 4\n", "trace.format"),  # a contact list or nodes that never move
        ("a", "1 2 100 160 1 0\n1 3 120 160 1 0\n2 3 130 190 1 0\n", "trace.format"),  # contacts of Haggle
        ("a", "5 2 1082040961\n1 3 1082155839\n4 2 1082414391\n", "trace.format"),  # a list of SNAP, in seconds
    ],
)
def test_what_is_wrong_or_doubtful_is_one_line(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    assert says in told(load, tmp_path / name)


def test_folders_are_of_formats_that_have_them(tmp_path):
    (tmp_path / "a.csv").write_text("time,id,x,y\n0,a,1,2\n")
    (tmp_path / "empty").mkdir()
    assert load(tmp_path).ids == ("a",)
    with pytest.raises(UserError, match="it is a folder; a trace in the format sumo is one file"):
        load(tmp_path, "sumo")
    (tmp_path / "a.csv").write_text("nothing\n")
    with pytest.raises(UserError, match=r"not known from a folder of traces; trace\.format names one: cabspotting"):
        load(tmp_path)
    with pytest.raises(UserError, match="the folder holds no files"):
        load(tmp_path / "empty")
