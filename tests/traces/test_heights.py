"""Heights of every format that has them, by hand; heights between samples; bad ones in one line."""

import numpy as np

from mdfl_jax.contrib.describe.traces import describe_trace
from mdfl_jax.traces import load, part_of, resample

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


def test_heights_by_hand(tmp_path):
    """Half way between two samples a node is half as high; ns-2's nodes keep their height. Of zeros there are none."""
    for name in WRITTEN:
        trace, fixed = load(write(tmp_path, name, of_heights(name, "5", "45.0"))), name == "a.tcl"
        assert trace.z.dtype == np.float32
        assert trace.z.tolist() == ([5, 5] if fixed else [5, 45]), name
        table = resample(trace, 2.0)
        assert table.height[:, 0].tolist() == ([5, 5, 5] if fixed else [5, 25, 45]), name
        assert dict(describe_trace(trace))["heights"] == ("5.0 to 5.0 m" if fixed else "5.0 to 45.0 m")
        plane = load(write(tmp_path, name, of_heights(name, "0", "0.00")))
        assert plane.z is None, name
        assert resample(plane, 2.0).height is None
        assert "heights" not in dict(describe_trace(plane))
    rows = "time,id,x,y,z\n0,a,0,0,1\n1,a,1,0,2\n1,a,1,0,2\n0,b,200,0,3\n1,b,201,0,4\n"  # sorted by id
    trace = load(write(tmp_path, "a.csv", rows))
    found = {(trace.ids[k], t): z for k, t, z in zip(trace.node, trace.sample_times, trace.z)}
    assert found == {("a", 0): 1, ("a", 1): 2, ("b", 0): 3, ("b", 1): 4}
    assert load(tmp_path / "a.csv", part=part_of(area="50,-1,999,1")).z.tolist() == [3, 4]

    assert load(write(tmp_path, "b.csv", "0,a,0,2,5\n4,a,10,2,45\n"), columns="time,id,x,y,z").z.tolist() == [5, 45]
