"""Heights of every format that has them, by hand; heights between samples; bad ones in one line."""

import numpy as np
import pandas as pd
import pytest
from small import told

from mdfl_jax.traces import load, part_of, resample
from mdfl_jax.traces.describe import describe

GPX = "<gpx><trk><trkseg>\n{}</trkseg></trk></gpx>"
POINT = '<trkpt lat="48.0" lon="11.{}">{}<time>2024-05-01T00:00:0{}Z</time></trkpt>\n'
FCD = '<fcd-export>\n<timestep time="0">\n{}</timestep>\n<timestep time="4">\n{}</timestep>\n</fcd-export>'
NS2 = "$node_(0) set X_ 0\n$node_(0) set Y_ 2\n$node_(0) set Z_ 5\n"
MOVES = '$ns_ at 0.0 "$node_(0) setdest 10 2 2.5"\n'

WRITTEN = {  # one node that rises from LOW at 0 s to HIGH at 4 s, where the format has heights that change
    "a.movements": "#3D\n0 0 2 LOW 4 10 2 HIGH\n",
    "a.one": "0 4 0 10 0 2 0 45\n0 7 0 2 LOW\n4 7 10 2 HIGH\n",
    "a.csv": "z,id,time,x,y\nLOW,a,0,0,2\nHIGH,a,4,10,2\n",
    "b.csv": "timestep_time;vehicle_id;vehicle_x;vehicle_y;vehicle_z;type\n0;a;0;2;LOW;car\n4;a;10;2;HIGH;car\n",
    "a.xml": FCD.format('<vehicle id="a" x="0" y="2" z="LOW"/>\n', '<vehicle id="a" x="10" y="2" z="HIGH"/>\n'),
    "b.xml": FCD.format('<person z="LOW" x="0" id="a" y="2"/>\n', '<person id="a" x="10" y="2" speed="1" z="HIGH"/>\n'),
    "a.gpx": GPX.format(POINT.format(0, "<ele>LOW</ele>", 0) + POINT.format(1, "<ele> HIGH </ele>", 4)),
    "a.tcl": NS2.replace("5", "LOW") + MOVES,
}


def write(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


def of_heights(name, low, high):
    return WRITTEN[name].replace("LOW", low).replace("HIGH", high)


@pytest.mark.parametrize("name", WRITTEN)
def test_heights_by_hand(name, tmp_path):
    """Half way between two samples a node is half as high; ns-2's nodes keep their height."""
    trace = load(write(tmp_path, name, of_heights(name, "5", "45.0")))
    assert trace.z.dtype == np.float32
    assert trace.z.tolist() == ([5, 5] if name == "a.tcl" else [5, 45])
    table = resample(trace, 2.0)
    assert table.height[:, 0].tolist() == ([5, 5, 5] if name == "a.tcl" else [5, 25, 45])
    assert table.position.shape == (3, 1, 2)
    assert dict(describe(trace))["heights"] == ("5.0 to 5.0 m" if name == "a.tcl" else "5.0 to 45.0 m")


def test_heights_of_parquet_and_of_named_columns(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"type": ["b", "b"], "z": [5, 45], "id": [3, 3], "y": [2, 2], "x": [0, 10], "time": [0, 4]})
    table.to_parquet(tmp_path / "a.parquet")
    trace = load(tmp_path / "a.parquet")
    assert (trace.z.tolist(), trace.x.tolist(), trace.kinds, trace.ids) == ([5, 45], [0, 10], ("b",), ("3",))
    path = write(tmp_path, "a.csv", "0,a,0,2,5\n4,a,10,2,45\n")
    assert load(path, columns="time,id,x,y,z").z.tolist() == [5, 45]
    assert load(path, columns="time,id,x,y,up").z is None
    assert load(write(tmp_path, "a.movements", "0 0 2 5 4 9 2 45\n"), columns="time,x,y,z").z.tolist() == [5, 45]


def test_samples_keep_their_heights_when_they_are_sorted_and_cut(tmp_path):
    """Rows sorted by id; a sample that is there twice; an area that leaves one node out."""
    rows = "time,id,x,y,z\n0,a,0,0,1\n1,a,1,0,2\n1,a,1,0,2\n0,b,200,0,3\n1,b,201,0,4\n"
    path = write(tmp_path, "a.csv", rows)
    trace = load(path)
    found = {(trace.ids[k], t): z for k, t, z in zip(trace.node, trace.sample_times, trace.z)}
    assert found == {("a", 0): 1, ("a", 1): 2, ("b", 0): 3, ("b", 1): 4}
    assert load(path, part=part_of(area="50,-1,999,1")).z.tolist() == [3, 4]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_of_zeros_is_one_of_the_plane(name, tmp_path):
    trace = load(write(tmp_path, name, of_heights(name, "0", "0.00")))
    assert trace.z is None
    assert resample(trace, 2.0).height is None
    assert "heights" not in dict(describe(trace))


BAD = {
    "a.one": ("0 4 0 10 0 2 0 45\n0 7 0 2 5\n4 7 10 2\n", "line 3: id '7' at time 4 has no z, and the samples before"),
    "b.csv": ("time,id,x,y,z\n0,a,0,2,nan\n4,a,1,2,0\n", "line 2: id 'a' at time 0: z is nan; it must be finite"),
    "c.csv": ("time,id,x,y,z,vehicle_z\n0,a,0,2,1,1\n", ""),
    "d.csv": ("time,id,x,y,z_m,vehicle_z\n0,a,0,2,1,1\n", "line 1: z_m and vehicle_z may both be the z; trace.columns"),
    "a.xml": (
        FCD.format('<vehicle id="a" x="0" y="2" z="5"/>\n', '<vehicle id="a" x="10" y="2"/>\n'),
        "line 6: id 'a' at time 4 has no z, and the samples before it have one; all have one, or none has",
    ),
    "a.gpx": (
        GPX.format(POINT.format(0, "<ele>5</ele>", 0) + POINT.format(1, "", 4)),
        "line 3: id 'a' at time 1714521604 has no z",
    ),
    "b.gpx": (GPX.format(POINT.format(0, "<ele>5 m</ele>", 0)), "line 2: ele is '5 m'; it must be a number"),
    "a.tcl": (
        NS2 + "$node_(1) set X_ 0\n$node_(1) set Y_ 2\n" + MOVES,
        "line 4: node 1 has no height, and others have: set Z_ is missing",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_height_is_one_line(name, tmp_path):
    text, expected = BAD[name]
    path = write(tmp_path, name, text)
    if not expected:  # a name of its own is taken before those of tools
        assert load(path).z.tolist() == [1]
        return
    assert f"trace {str(path)!r}, {expected}" in told(load, path)
