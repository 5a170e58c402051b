"""SUMO's own tools as judges: its library reads the same places, and what its traceExporter writes is read as they are.

The extra `sumo` brings the library.
"""

import random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.traces import load
from tests.traces.test_any_format import drawn_trace, read_of, written

sumolib = pytest.importorskip("sumolib")
ns2 = pytest.importorskip("sumolib.output.convert.ns2")


class Vehicle(NamedTuple):
    id: str
    x: float
    y: float
    speed: float = 5.0


class Step(NamedTuple):
    time: float
    vehicle: list[Vehicle]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**40), st.booleans())
def test_places_are_those_of_sumolib_in_both_files(tmp_path_factory, seed, keeps_ids):
    folder = tmp_path_factory.mktemp("sumo")
    path = written(folder, "sumo", drawn_trace(random.Random(seed)))
    steps = [
        Step(float(step.time), [Vehicle(v.id, float(v.x), float(v.y)) for v in step.vehicle or ()])
        for step in sumolib.xml.parse(str(path), "timestep")
    ]
    said = {(v.id, step.time, v.x, v.y) for step in steps for v in step.vehicle}
    assert read_of(load(path)) == said
    exported = folder / "ns2"
    exported.mkdir()
    with open(exported / "mobility.tcl", "w") as mobility, open(exported / "activity.tcl", "w") as activity:
        further = {"orig-ids": keeps_ids, "ignore-gaps": True}
        numbers, vehicles, begin, end, area = ns2.fcd2ns2mobility(steps, mobility, further)
        ns2.writeNS2activity(activity, vehicles)
    with open(exported / "config.tcl", "w") as config:
        ns2.writeNS2config(config, vehicles, "activity.tcl", "mobility.tcl", begin, end, area)
    del numbers
    number_of = {name: str(number) for name, (number, *_) in vehicles.items()}
    for exported_as in (exported, exported / "mobility.tcl"):
        assert read_of(load(exported_as)) == {(number_of[name], *rest) for name, *rest in said}
