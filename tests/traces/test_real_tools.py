"""Files that the tools themselves make here, where they are installed: SUMO (eclipse-sumo) and gpxpy."""

import shutil
import subprocess
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from mdfl_jax.traces import Trace, load
from mdfl_jax.traces.formats.sumo import streets_of_network

ROUTES = """<routes><vType id="car" vClass="passenger"/>
<flow id="f" type="car" begin="0" end="30" period="5" from="A0A1" to="C2C3"/>
<flow id="g" type="car" begin="3" end="30" period="7" from="D3C3" to="B0A0"/>
<person id="p" depart="2"><walk from="B1C1" to="C1D1"/></person></routes>"""
WAYS = {
    "a.xml": (),
    "a.xml.gz": (),
    "a.csv": (),
    "a.csv.gz": (),
    "commas.csv": ("--output.column-separator", ","),
    "plain.csv": ("--output.column-header", "plain"),
    "full.csv": ("--output.column-header", "full"),
    "few.xml": ("--fcd-output.attributes", "x,y"),
    "more.xml": ("--fcd-output.acceleration", "--fcd-output.distance", "--fcd-output.max-leader-distance", "50"),
}


def run(name, *words):
    """Run a program of SUMO's in a folder."""
    sumo = pytest.importorskip("sumo")
    found = shutil.which(name) or str(Path(sumo.SUMO_HOME) / "bin" / name)
    subprocess.run([found, *map(str, words)], check=True, capture_output=True, timeout=60)


def samples(trace):
    """{(id, time): (x, y)} in the unit of the file, to a centimetre."""
    x, y = (column.astype(float) + start for column, start in zip((trace.x, trace.y), trace.origin))
    rows = zip(trace.node, trace.sample_times.tolist(), np.round(x, 2).tolist(), np.round(y, 2).tolist())
    return {(trace.ids[k], t): (a, b) for k, t, a, b in rows}


def test_all_that_sumo_writes_of_one_run_is_one_trace(tmp_path):
    net, routes = tmp_path / "net.xml", tmp_path / "routes.xml"
    run("netgenerate", "--grid", "--grid.number=4", "--grid.length=200", "-o", net)
    routes.write_text(ROUTES)
    truth: dict[tuple[str, float], tuple[float, float]] = {}
    for name, words in WAYS.items():
        path = tmp_path / name
        run("sumo", "-n", net, "-r", routes, "--end", 60, "--no-step-log", "--fcd-output", path, *words)
        if not truth:
            for step in ET.parse(path).getroot():
                of_step = {
                    (of.get("id"), float(step.get("time"))): (float(of.get("x")), float(of.get("y"))) for of in step
                }
                truth |= of_step
        trace = load(path)
        assert isinstance(trace, Trace)
        assert samples(trace) == truth, name
    assert len(truth) > 300
    assert len(streets_of_network(net)) > 0


def test_a_track_that_gpxpy_writes(tmp_path):
    gpx = pytest.importorskip("gpxpy.gpx")
    made, start = gpx.GPX(), datetime(2024, 5, 1, 10, tzinfo=UTC)
    for rider in range(2):
        track = gpx.GPXTrack(name=f"rider {rider}")
        made.tracks.append(track)
        for segment in range(2):
            track.segments.append(gpx.GPXTrackSegment())
            for k in range(3):
                when = start + timedelta(seconds=60 * segment + 10 * k)
                point = gpx.GPXTrackPoint(47 + 0.0001 * k, 8 + 0.001 * rider, 400 + k, when)
                track.segments[segment].points.append(point)
    made.waypoints.append(gpx.GPXWaypoint(47, 8, name="a café"))
    (tmp_path / "ride.gpx").write_text(made.to_xml(), encoding="utf-8")
    trace = load(tmp_path / "ride.gpx")
    assert isinstance(trace, Trace)
    assert (trace.ids, len(trace.node), len(trace.times)) == (("rider 0", "rider 1"), 12, 6)
    assert np.diff(trace.times).tolist() == [10, 10, 40, 10, 10]
    assert trace.times[0] == start.timestamp()
