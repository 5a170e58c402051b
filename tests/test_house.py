"""The layout of the package: rooms that import only rooms below them (`benchmarks.house.ORDER`)."""

import pytest

from benchmarks import house


def test_every_module_lies_in_a_room_and_no_import_runs_upward():
    modules = house.modules_of()
    assert house.loose(modules) == []
    assert {house.room_of(name) for name in modules} == {"", *house.ORDER}  # "": the package itself
    assert house.upward(house.graph_of(modules)) == []


@pytest.mark.parametrize("folder", ["mdfl_jax", "benchmarks"])
def test_no_modules_import_each_other_in_a_circle(folder):
    assert house.circles(house.graph_of(house.modules_of(house.ROOT / folder))) == []
