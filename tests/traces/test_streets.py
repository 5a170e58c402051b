"""Streets of a SUMO network: read, simplified, in the coordinates of the trace, and in the workdir of a study."""

import numpy as np
import pytest
from small import told

from mdfl_jax.traces.formats import sumo as module
from mdfl_jax.traces.formats.sumo import street_pieces, streets_of_network
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


def test_streets_are_first_lanes_simplified_where_the_trace_is(network, monkeypatch):
    one, two = streets_of_network(network)  # a junction has none
    assert one.tolist() == [[0, 0], [50, 0.2], [100, 0], [100, 80]]
    assert two.tolist() == [[100, 80], [0, 80]]
    expected = [[0, 0, 100, 0], [100, 0, 100, 80], [100, 80, 0, 80]]
    assert street_pieces(network, trace()).tolist() == expected
    moved = street_pieces(network, trace((10.0, -20.0)))
    np.testing.assert_array_equal(moved, np.array(expected) - [10, -20, 10, -20])
    assert "the places of the trace are in degrees" in told(street_pieces, network, trace(form="sumo_geo"))
    monkeypatch.setattr(module, "MOST_PIECES", 2)  # a large network is simplified until it is small
    assert street_pieces(network, trace()).tolist() == [[0, 0, 100, 80], [100, 80, 0, 80]]
