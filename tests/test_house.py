"""The layout of the package: rooms that import only rooms below them (`benchmarks.house.ORDER`)."""

from benchmarks import house


def test_every_module_lies_in_a_room_and_no_import_runs_upward_or_in_a_circle():
    modules = house.modules_of()
    assert house.loose(modules) == []
    assert {house.room_of(name) for name in modules} == {"", *house.ORDER}  # "": the package itself
    graph = house.graph_of(modules)
    assert house.upward(graph) == []
    assert house.circles(graph) == []
    assert house.circles(house.graph_of(house.modules_of(house.ROOT / "benchmarks"))) == []


def test_the_core_imports_nothing_of_contrib_and_contrib_no_private_name_of_the_core():
    modules = house.modules_of()
    inward = {
        name: [other for other in others if house.room_of(other) == house.CONTRIB]
        for name, others in house.graph_of(modules).items()
        if house.room_of(name) != house.CONTRIB
    }
    assert {name: others for name, others in inward.items() if others} == {}
    assert house.private_of_core(modules) == []
