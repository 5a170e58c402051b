"""Parts of a trace by type, time and area; longitudes across 180 degrees; nodes that come and leave."""

import math
import random
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import told

from mdfl_jax.contrib.describe.traces import describe_trace
from mdfl_jax.core.errors import UserError
from mdfl_jax.traces import Trace, load, part_of, resample
from mdfl_jax.traces.loading import EARTH_RADIUS


def table_of(seed, geographic=False):
    """Vehicles of three types, seen at some of ten instants, in a square; degrees lie on both sides of 180."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(6):
        for t in range(10):
            if rng.random() < 0.8:
                x, y = rng.uniform(-100, 100, 2).round(1)
                if geographic:
                    x, y = round((179.9 + x / 1e3 + 180) % 360 - 180, 6), round(-17 + y / 1e3, 6)
                rows.append((float(t), f"v{k}", x, y, ("car", "bus", "tram")[k % 3]))
    return pd.DataFrame(rows, columns=["time", "id", *(("lon", "lat") if geographic else "xy"), "vehicle_type"])


def samples_of(trace):
    assert isinstance(trace, Trace)
    return {(trace.ids[k], t) for k, t in zip(trace.node, trace.sample_times)}


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from(["", "car", "bus,tram"]),
    st.sampled_from(["", "2,7", "0,4.5"]),
    st.sampled_from(["", "-50,-80,60,40"]),
)
def test_a_part_is_that_of_pandas(tmp_path_factory, seed, types, times, area):
    table, path = table_of(seed), tmp_path_factory.mktemp("part") / "t.csv"
    table.to_csv(path, index=False)
    kept = table[table.vehicle_type.isin(types.split(","))] if types else table
    if times:
        kept = kept[kept.time.between(*map(float, times.split(",")))]
    if area:
        west, south, east, north = map(float, area.split(","))
        kept = kept[kept.x.between(west, east) & kept.y.between(south, north)]
    if not len(kept):
        with pytest.raises(UserError, match="leave no sample of it"):
            load(path, part=part_of(types, times, area))
        return
    trace = load(path, part=part_of(types, times, area))
    assert samples_of(trace) == set(zip(kept.id, kept.time))
    np.testing.assert_allclose(np.sort(trace.x + trace.origin[0]), np.sort(kept.x), atol=1e-4)
    assert list(trace.ids) == [name for name in dict.fromkeys(table.id) if name in set(kept.id)]
    assert dict(zip(trace.ids, trace.kinds)) == dict(zip(kept.id, kept.vehicle_type))


def test_types_of_sumo_classes_of_people_and_dates(tmp_path):
    step = '<timestep time="{0}"><vehicle id="a" x="{0}" y="0" type="bus"/><person id="b" x="{0}" y="5" type="w"/>'
    body = "".join(step.format(t) + "</timestep>" for t in range(3))
    (tmp_path / "fcd.xml").write_text(f"<fcd-export>{body}</fcd-export>")
    assert load(tmp_path / "fcd.xml", part=part_of("bus")).ids == ("a",)
    (tmp_path / "tij.dat").write_text("20 7 3 A B\n40 7 9 A A\n60 3 9 B A\n")
    people = load(tmp_path / "tij.dat", "sociopatterns")
    assert dict(zip(people.ids, people.kinds)) == {"3": "B", "7": "A", "9": "A"}
    of_a = load(tmp_path / "tij.dat", "sociopatterns", part=part_of("A"))
    assert (of_a.ids, of_a.pair.tolist(), of_a.start.tolist()) == (("7", "9"), [[0, 1]], [20])
    cut = load(tmp_path / "tij.dat", "sociopatterns", part=part_of(times="10,50"))
    assert (cut.start.tolist(), cut.end.tolist()) == ([10, 20, 40], [20, 40, 50])
    (tmp_path / "taxis.txt").write_text("".join(f"7,2008-02-02 15:{m}:00,116.5{m},39.9\n" for m in (10, 20, 30)))
    trace = load(
        tmp_path / "taxis.txt", columns="id,time,lon,lat", part=part_of(times="2008-02-02 15:10:10,2008-02-02 15:20:00")
    )
    assert trace.times.tolist() == [datetime(2008, 2, 2, 15, 20, tzinfo=UTC).timestamp()]
    (tmp_path / "a.movements").write_text("0 1 2 5 3 4\n")
    for name, fields, says in (
        ("fcd.xml", {"types": "tram"}, "trace.types names 'tram'; it has bus, w"),
        ("", {"times": "7,3"}, "trace.times is '7,3'; it must be begin,end in seconds of the file, or dates with"),
        ("", {"area": "1,2,3"}, "trace.area is '1,2,3'; it must be west,south,east,north in the unit of the file"),
        ("a.movements", {"times": "0,3"}, "trace.start skips the beginning"),
    ):
        assert says in told(lambda name=name, fields=fields: load(tmp_path / name, part=part_of(**fields)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000))
def test_an_area_across_180_degrees_is_in_one_piece(tmp_path_factory, seed):
    """Distances are those on the sphere, by the haversine formula, to a metre in thirty kilometres."""
    table, path = table_of(seed, geographic=True), tmp_path_factory.mktemp("globe") / "t.csv"
    table.to_csv(path, index=False)
    trace = load(path)
    found = {key: (x, y) for key, x, y in zip(zip(trace.node, trace.sample_times), trace.x, trace.y)}
    index = {name: k for k, name in enumerate(trace.ids)}
    drawn = random.Random(seed)
    rows = list(table.itertuples(index=False))
    for _ in range(20):
        a, b = drawn.choice(rows), drawn.choice(rows)
        (ax, ay), (bx, by) = (found[index[row.id], row.time] for row in (a, b))
        p, q = (np.radians([row.lat, row.lon]) for row in (a, b))
        chord = np.sin((p[0] - q[0]) / 2) ** 2 + np.cos(p[0]) * np.cos(q[0]) * np.sin((p[1] - q[1]) / 2) ** 2
        assert math.hypot(ax - bx, ay - by) == pytest.approx(2 * EARTH_RADIUS * math.asin(math.sqrt(chord)), abs=20)
    assert -180 <= trace.origin[0] <= 180
    inside = load(path, part=part_of(area="179.949995,-18,-179.979995,-16"))
    wanted = table[(table.lon >= 179.949995) | (table.lon <= -179.979995)]  # bounds on which no sample lies
    assert samples_of(inside) == set(zip(wanted.id, wanted.time))


MOBILITY = """$node_(0) set X_ 0.0
$node_(0) set Y_ 5.0
$node_(0) set Z_ 0
$ns_ at 10.0 "$node_(0) setdest 0.0 5.0 1.0"
$node_(1) set X_ 100.0
$node_(1) set Y_ 5.0
$node_(1) set Z_ 0
$ns_ at 10.0 "$node_(1) setdest 100.0 5.0 2.0"
$ns_ at 11.0 "$node_(0) setdest 2.0 5.0 2.0"
$ns_ at 11.0 "$node_(1) setdest 101.5 5.0 0.0"
$ns_ at 12.0 "$node_(0) setdest 4.0 5.0 2.0"
"""
ACTIVITY = '$ns_ at 10.0 "$g(0) start"; # SUMO-ID: car\n$ns_ at 12.0 "$g(0) stop"; # SUMO-ID: car\n'


def test_what_sumo_exports_for_ns2_are_places_at_times(tmp_path):
    """As in the FCD output it was made from; a folder of the exported files is one trace."""
    (tmp_path / "mobility.tcl").write_text(MOBILITY)
    (tmp_path / "activity.tcl").write_text(ACTIVITY)
    (tmp_path / "config.tcl").write_text("# set number of nodes\nset opt(nn) 2\n\nappend opt(af) /activity.tcl\n")
    for path in (tmp_path / "mobility.tcl", tmp_path):
        trace = load(path)
        assert not trace.waypoints
        found = {(trace.ids[k], t): x for k, t, x in zip(trace.node, trace.sample_times, trace.x)}
        assert found == {("0", 10): 0, ("0", 11): 2, ("0", 12): 4, ("1", 10): 100, ("1", 11): 101.5}
        table = resample(trace, 1.0, gaps="absent")
        assert table.present.tolist() == [[True, True], [True, True], [True, False]]
    assert "1 leave before the end: they stand there" in dict(describe_trace(load(tmp_path), gaps="hold"))["presence"]
    assert "1 leave before the end: they are gone" in dict(describe_trace(load(tmp_path)))["presence"]
    with pytest.raises(UserError, match="it says when nodes are active, and not where; a folder of both files"):
        load(tmp_path / "activity.tcl")


def test_a_folder_of_tables_is_one(tmp_path):
    """Files with ids are parts of one table, as of T-Drive; a file without is a node with its name."""
    for taxi in (3, 7):
        rows = "".join(f"{taxi},2008-02-02 15:{m}:00,116.5{m},39.9{taxi}\n" for m in (10, 20, 30))
        (tmp_path / f"{taxi}.txt").write_text(rows)
    assert load(tmp_path, columns="id,time,lon,lat").ids == ("3", "7")
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("ann", "bob"):
        (bare / f"{name}.csv").write_text("t,x,y\n0,1,5\n1,2,5\n2,3,5\n")
    assert load(bare).ids == ("ann", "bob")
    (bare / "cy.csv").write_text("t,lon,lat\n0,1,5\n1,2,5\n")
    with pytest.raises(UserError, match="its places are in another unit than those of the files before it"):
        load(bare)
