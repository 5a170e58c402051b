"""The streets of a network of SUMO, without the rest of its file."""

from configs.data.sumo_tools import only_streets
from mdfl_jax.traces.formats.sumo import read_streets

NET = """<?xml version="1.0" encoding="UTF-8"?>
<!-- generated on a day -->
<net version="1.20">
    <location netOffset="0.00,0.00" projParameter="!"/>
    <edge id=":a_0" function="internal">
        <lane id=":a_0_0" shape="0,0 9,9"/>
    </edge>
    <edge id="one" from="a" to="b">
        <lane id="one_0" shape="0,0 50,0"/>
        <lane id="one_1" shape="0,3 50,3"/>
    </edge>
    <tlLogic id="a" type="static"/>
    <junction id="a" type="traffic_light"/>
</net>
"""


def test_only_the_streets_of_a_network_are_left(tmp_path):
    short = only_streets(NET)
    assert not any(word in short for word in ("generated", "internal", ":a_0", "tlLogic", "junction"))
    found = []
    for text in (NET, short):
        (tmp_path / "a.net.xml").write_text(text)
        found.append([line.tolist() for line in read_streets(tmp_path / "a.net.xml")])
    assert found[0] == found[1] == [[[0, 0], [50, 0]]]
