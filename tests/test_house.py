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


def test_upward_imports_and_circles_are_found():
    graph = {"mdfl_jax.core.a": ["mdfl_jax.cli.b"], "mdfl_jax.cli.b": ["mdfl_jax.core.a"]}
    assert house.upward(graph) == ["mdfl_jax.core.a -> mdfl_jax.cli.b"]
    assert house.circles(graph) == [["mdfl_jax.core.a", "mdfl_jax.cli.b"]]


def test_imports_anywhere_in_a_file_count(tmp_path):
    known = {"mdfl_jax.core.x": tmp_path, "mdfl_jax.cli.y": tmp_path}
    file = tmp_path / "z.py"
    file.write_text(
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from mdfl_jax.core import x\n\n\n"
        "def f():\n    import mdfl_jax.cli.y\n"
    )
    assert house.imports_of("mdfl_jax.core.z", file, known) == {"mdfl_jax.core.x", "mdfl_jax.cli.y"}
