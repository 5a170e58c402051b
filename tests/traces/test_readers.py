"""Every format by files written by hand, with the answers known; the same trace in each way of writing it."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces import Contacts, detect, load
from mdfl_jax.traces.loading import EARTH_RADIUS

FILES = Path(__file__).parents[1] / "data" / "traces"


def samples(trace):
    """{(id, time): (x, y)} of a trace, in metres from its origin."""
    named = zip(trace.node, trace.sample_times, trace.x, trace.y)
    return {(trace.ids[node], float(time)): (float(x), float(y)) for node, time, x, y in named}


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("crossing.fcd.xml", "sumo"),
        ("pair.movements", "bonnmotion"),
        ("pair.ns_movements", "ns2"),
        ("places.csv", "csv"),
        ("globe.csv", "csv"),
        ("rounds.csv", "contacts"),
        ("spans.csv", "contacts"),
    ],
)
def test_the_format_is_known_by_ending_and_by_content(name, format_name, tmp_path):
    assert detect(FILES / name)[0] == format_name
    bare, packed = tmp_path / "trace", tmp_path / "trace.gz"
    bare.write_bytes((FILES / name).read_bytes())
    packed.write_bytes(gzip.compress((FILES / name).read_bytes()))
    assert detect(bare)[0] == detect(packed)[0] == format_name
    plain, unpacked = load(bare), load(packed)
    for a, b in zip(vars(plain).values(), vars(unpacked).values()):
        assert np.array_equal(a, b) or (a, b) == (str(bare), str(packed))


def write(tmp_path, text, name="trace.xml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def fcd(body):
    return f"<fcd-export>{body}</fcd-export>"


def test_sumo_attributes_in_any_order_empty_steps_and_escapes(tmp_path):
    body = '<timestep time="5"/><timestep time="7.5"><vehicle speed="1" y="2" lane="a" x="1" id="a&amp;b"/></timestep>'
    trace = load(write(tmp_path, fcd(body + '<timestep time="9"></timestep>')))
    assert trace.ids == ("a&b",)
    assert trace.times.tolist() == [5, 7.5, 9]
    assert trace.offsets.tolist() == [0, 0, 1, 1]
    assert samples(trace) == {("a&b", 7.5): (1, 2)}


@pytest.mark.parametrize(("names", "form"), [("lon lat", "sumo"), ("x y", "sumo_geo")])
def test_geographic_sumo(tmp_path, names, form):
    lon, lat = names.split()
    body = f'<timestep time="0"><vehicle id="a" {lon}="16.4" {lat}="48.2"/><vehicle id="b" {lon}="16.4" {lat}="48.3"/>'
    trace = load(write(tmp_path, fcd(body + "</timestep>")), form)
    assert trace.origin == pytest.approx((16.4, 48.25), abs=1e-6)
    assert trace.y[1] - trace.y[0] == pytest.approx(math.radians(0.1) * EARTH_RADIUS, rel=1e-6)
    assert abs(trace.x).max() < 1e-3
    assert trace.format == "sumo_geo"


def test_far_coordinates_keep_centimetres(tmp_path):
    """UTM northings are beyond what float32 resolves; an origin near the first sample keeps them."""
    rows = [(0, 691_608.41, 5_334_760.23), (1, 691_609.42, 5_334_761.27)]
    path = write(tmp_path, "time,id,x,y\n" + "".join(f"{t},a,{x},{y}\n" for t, x, y in rows), "far.csv")
    trace = load(path)
    assert trace.origin == (691_000, 5_334_000)
    np.testing.assert_allclose(trace.x.astype(float) + trace.origin[0], [x for _, x, _ in rows], atol=1e-4, rtol=0)
    np.testing.assert_allclose(trace.y.astype(float) + trace.origin[1], [y for *_, y in rows], atol=1e-4, rtol=0)


def test_ns2_by_hand():
    """A leg that is interrupted ends where the node then is; speed 0 stops it."""
    trace = load(FILES / "pair.ns_movements")
    assert trace.waypoints
    assert samples(trace) == {
        ("0", 0.0): (0, 0),
        ("0", 4.0): (4, 0),
        ("0", 7.0): (4, 3),
        ("1", 0.0): (100, 50),
        ("1", 2.0): (100, 50),
        ("1", 4.0): (100, 60),
    }


NS2 = "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n"


@pytest.mark.parametrize(
    ("commands", "corners"),
    [
        ([], {0: 0}),  # never moves
        ([(0, 10, 2)], {0: 0, 5: 10}),
        ([(3, 10, 2)], {0: 0, 3: 0, 8: 10}),
        ([(0, 10, 2), (5, 0, 1)], {0: 0, 5: 10, 15: 0}),  # sent back as it arrives
        ([(0, 10, 2), (2, 0, 1)], {0: 0, 2: 4, 6: 0}),  # sent back on its way
        ([(2, 0, 1), (0, 10, 2)], {0: 0, 2: 4, 6: 0}),  # lines in another order
        ([(0, 10, 2), (0, 8, 4)], {0: 0, 2: 8}),  # the later of two at one time holds
        ([(0, 10, 2), (1, 10, 0), (4, 10, 1)], {0: 0, 1: 2, 4: 2, 12: 10}),  # stops and goes on
        ([(1, 0, 5), (4, 8, 2)], {0: 0, 1: 0, 4: 0, 8: 8}),  # sent to where it is
    ],
)
def test_ns2_legs(tmp_path, commands, corners):
    lines = [f'$ns_ at {time} "$node_(0) setdest {x} 0 {speed}"\n' for time, x, speed in commands]
    trace = load(write(tmp_path, NS2 + "".join(lines), "legs.tcl"))
    assert {time: x for (_, time), (x, _) in samples(trace).items()} == pytest.approx(corners)


def test_csv_with_quotes_blanks_comments_marks_and_without_a_header(tmp_path):
    expected = samples(load(FILES / "places.csv"))
    assert expected["a", 1.0] == (1.5, 2)
    assert expected["b", 2.0] == (5.5, -2)
    rows = [line.split(",") for line in (FILES / "places.csv").read_text().split()[1:]]
    variants = {
        "no header": "".join(",".join(row) + "\n" for row in rows),
        "quotes, blanks, comments": "# ours\ntime,id,x,y\n\n"
        + "".join(f'{t}, "{i}", {x}, {y}\n' for t, i, x, y in rows),
        "byte order mark, CRLF": "\ufefftime,id,x,y\r\n" + "".join(",".join(row) + "\r\n" for row in rows),
    }
    for name, text in variants.items():
        path = tmp_path / f"{name}.csv"
        path.write_bytes(text.encode())
        assert samples(load(path)) == expected, name


def test_contact_lists_by_hand():
    rounds, spans = load(FILES / "rounds.csv"), load(FILES / "spans.csv")
    assert isinstance(spans, Contacts)
    assert rounds.in_rounds
    assert not spans.in_rounds
    assert rounds.pair.tolist() == [[0, 1], [1, 0], [1, 2], [0, 2]]
    assert (rounds.start.tolist(), rounds.end.tolist()) == ([0, 0, 0, 2], [1, 1, 1, 3])
    assert (spans.start.tolist(), spans.end.tolist()) == ([0, 15, 18], [10, 15, 30.5])


def test_csv_geo_may_be_told(tmp_path):
    path = write(tmp_path, "0,a,16.4,48.2\n1,a,16.4,48.3\n", "globe.csv")
    assert load(path, "csv").format == "csv"
    with pytest.raises(UserError, match=r"look like degrees; trace\.format=csv reads metres; trace\.columns="):
        load(path)
    assert float(np.ptp(load(path, "csv_geo").y)) == pytest.approx(11_119.5, abs=1)
