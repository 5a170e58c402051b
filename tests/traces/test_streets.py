"""Streets of a SUMO network: read, simplified, in the coordinates of the trace, and in the workdir of a study."""

import gzip
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import told

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces.formats import sumo as module
from mdfl_jax.traces.formats.sumo import read_streets, simplified, street_pieces
from mdfl_jax.traces.trace import Trace

NET = """<?xml version="1.0" encoding="UTF-8"?>
<net version="1.16">
  <location netOffset="0.00,0.00" projParameter="!"/>
  <edge id=":a_0" function="internal"><lane id=":a_0_0" shape="0,0 9,9"/></edge>
  <edge id="one" from="a" to="b">
    <lane id="one_0" shape="0.0,0.0 50.0,0.2 100.0,0.0 100.0,80.0"/>
    <lane id="one_1" shape="0.0,3.2 100.0,3.2"/>
  </edge>
  <edge id="two" from="b" to="a"><lane id="two_0" shape="100.0,80.0,5.0 0.0,80.0,7.5"/></edge>
</net>
"""


def trace(origin=(0.0, 0.0), form="sumo"):
    none = np.zeros(0)
    return Trace((), none, none, none, none, none, origin, False, form)


@pytest.fixture
def network(tmp_path):
    path = tmp_path / "town.net.xml"
    path.write_text(NET)
    return path


def test_the_first_lane_of_each_edge_is_a_street_and_a_junction_has_none(network, tmp_path):
    one, two = read_streets(network)
    assert one.tolist() == [[0, 0], [50, 0.2], [100, 0], [100, 80]]
    assert two.tolist() == [[100, 80], [0, 80]]
    packed = tmp_path / "town.net.xml.gz"
    packed.write_bytes(gzip.compress(NET.encode()))
    assert [line.tolist() for line in read_streets(packed)] == [one.tolist(), two.tolist()]


def test_pieces_are_simplified_and_lie_where_the_trace_is(network):
    expected = [[0, 0, 100, 0], [100, 0, 100, 80], [100, 80, 0, 80]]
    assert street_pieces(network, trace()).tolist() == expected
    moved = street_pieces(network, trace((10.0, -20.0)))
    np.testing.assert_array_equal(moved, np.array(expected) - [10, -20, 10, -20])
    assert moved.dtype == np.float32


def test_a_large_network_is_simplified_until_it_is_small(network, monkeypatch):
    monkeypatch.setattr(module, "MOST_PIECES", 2)
    assert street_pieces(network, trace()).tolist() == [[0, 0, 100, 80], [100, 80, 0, 80]]


def away(point, a, b):
    """The distance of a point from the piece from a to b, by a fine search."""
    steps = np.linspace(0, 1, 2001)[:, None]
    return np.hypot(*(a + steps * (b - a) - point).T).min()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=12), st.floats(0.5, 5))
def test_every_point_that_is_left_out_is_near(points, tolerance):
    line = np.array(points, float)
    short = simplified(line, tolerance)
    assert short[0].tolist() == line[0].tolist()
    assert short[-1].tolist() == line[-1].tolist()
    for point in line:
        assert min(away(point, a, b) for a, b in itertools.pairwise(short)) <= tolerance + 0.02


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<fcd-export/>", "line 1: the root element is <fcd-export>; a network of SUMO has <net>"),
        ("<net></net>", "the network has no edge with a lane"),
        ("<net><edge id='a'><lane shape='0,0 1'/></edge></net>", "the point '1'; it must be x,y or x,y,z"),
        ("<net><edge id='a'><lane shape='0,0 1,x'/></edge></net>", "a coordinate of a lane's shape is 'x'; it must be"),
        ("<net>", "the file is cut off"),
        ("", "the file is empty"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><net/>', "a document type (DOCTYPE, entities) is refused"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, text, says):
    path = tmp_path / "bad.net.xml"
    path.write_text(text)
    assert says in told(read_streets, path)


def test_a_trace_in_degrees_has_no_streets(network, tmp_path):
    with pytest.raises(UserError, match="the places of the trace are in degrees"):
        street_pieces(network, trace(form="sumo_geo"))
    with pytest.raises(UserError, match="there is no such file"):
        street_pieces(tmp_path / "absent.net.xml", trace())
