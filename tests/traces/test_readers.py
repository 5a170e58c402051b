"""Every format by files written by hand, with the answers known; the same trace in each way of writing it."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from mdfl_jax.traces import detect, load, resample
from mdfl_jax.traces.loading import EARTH_RADIUS

FILES = Path(__file__).parents[1] / "data" / "traces"


def samples(trace):
    """{(id, time): (x, y)} of a trace, in metres from its origin."""
    named = zip(trace.node, trace.sample_times, trace.x, trace.y)
    return {(trace.ids[node], float(time)): (float(x), float(y)) for node, time, x, y in named}


def write(tmp_path, text, name="trace.xml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_sumo_as_people_write_it_and_spans(tmp_path):
    body = '<timestep time="5"/><timestep time="7.5"><vehicle speed="1" y="2" lane="a" x="1" id="a&amp;b"/></timestep>'
    fcd = f'<fcd-export>{body}<timestep time="9"></timestep></fcd-export>'
    trace = load(write(tmp_path, fcd))
    assert (trace.ids, trace.times.tolist(), trace.offsets.tolist()) == (("a&b",), [5, 7.5, 9], [0, 0, 1, 1])
    assert samples(trace) == {("a&b", 7.5): (1, 2)}
    vehicles = '<vehicle id="a" lon="16.4" lat="48.2"/><vehicle id="b" lon="16.4" lat="48.3"/>'
    trace = load(write(tmp_path, f'<fcd-export><timestep time="0">{vehicles}</timestep></fcd-export>'))
    assert trace.format == "sumo_geo"
    assert trace.origin == pytest.approx((16.4, 48.25), abs=1e-6)
    assert trace.y[1] - trace.y[0] == pytest.approx(math.radians(0.1) * EARTH_RADIUS, rel=1e-6)
    spans = load(FILES / "spans.csv")
    assert (spans.start.tolist(), spans.end.tolist(), spans.in_rounds) == ([0, 15, 18], [10, 15, 30.5], False)


NS2 = "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n"


def test_the_format_is_known_by_ending_or_by_header(tmp_path):
    for name, format_name in {
        "crossing.fcd.xml": "sumo",
        "pair.movements": "bonnmotion",
        "pair.ns_movements": "ns2",
        "places.csv": "csv",
        "globe.csv": "csv",
        "rounds.csv": "contacts",
        "spans.csv": "contacts",
    }.items():
        assert detect(FILES / name)[0] == format_name
        ending = Path(name).suffix if format_name in ("bonnmotion", "ns2") else ""  # the others have a header
        bare, packed = tmp_path / f"trace{ending}", tmp_path / f"trace{ending}.gz"
        bare.write_bytes((FILES / name).read_bytes())
        packed.write_bytes(gzip.compress((FILES / name).read_bytes()))
        assert detect(bare)[0] == detect(packed)[0] == format_name
        plain, unpacked = load(bare), load(packed)
        for a, b in zip(vars(plain).values(), vars(unpacked).values()):
            assert np.array_equal(a, b) or (a, b) == (str(bare), str(packed))


def test_ns2_legs(tmp_path):
    """A leg that is interrupted ends where the node then is; speed 0 stops it. An activity says when it is there."""
    for commands, corners in [
        ([], {0: 0}),  # never moves
        ([(3, 10, 2)], {0: 0, 3: 0, 8: 10}),
        ([(0, 10, 2), (5, 0, 1)], {0: 0, 5: 10, 15: 0}),  # sent back as it arrives
        ([(0, 10, 2), (2, 0, 1)], {0: 0, 2: 4, 6: 0}),  # sent back on its way
        ([(2, 0, 1), (0, 10, 2)], {0: 0, 2: 4, 6: 0}),  # lines in another order
        ([(0, 10, 2), (0, 8, 4)], {0: 0, 2: 8}),  # the later of two at one time holds
        ([(0, 10, 2), (1, 10, 0), (4, 10, 1)], {0: 0, 1: 2, 4: 2, 12: 10}),  # stops and goes on
        ([(1, 0, 5), (4, 8, 2)], {0: 0, 1: 0, 4: 0, 8: 8}),  # sent to where it is
    ]:
        lines = [f'$ns_ at {time} "$node_(0) setdest {x} 0 {speed}"\n' for time, x, speed in commands]
        trace = load(write(tmp_path, NS2 + "".join(lines), "legs.tcl"))
        assert {time: x for (_, time), (x, _) in samples(trace).items()} == pytest.approx(corners)
    active = '$ns_ at 0.0 "$node_(0) setdest 10 0 1"\n$ns_ at 2.0 "$g(0) start"\n$ns_ at 6.0 "$g(0) stop"\n'
    two = NS2 + NS2.replace("(0)", "(1)") + active  # the other one has no activity
    table = resample(load(write(tmp_path, two, "a.tcl")), 2.0, gaps="absent")
    assert table.position[:, 0, 0].tolist() == [2, 2, 4, 6]
    assert table.present.T.tolist() == [[False, True, True, True], [True] * 4]
