"""What pyproject.toml declares: the packages that the code imports, and the extras that its messages name."""

import ast
import re
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = sorted((ROOT / "mdfl_jax").rglob("*.py"))
OWN = {"mdfl_jax", "configs", *sys.stdlib_module_names}


def imported(path):
    """The top-level packages that a file needs in order to be imported at all."""
    for node in ast.parse(path.read_text()).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        yield from (name.partition(".")[0] for name in names)


def test_every_package_that_is_imported_is_a_dependency():
    needed = {name: path.name for path in FILES for name in imported(path) if name not in OWN}
    assert {"jax", "matplotlib"} <= set(needed)
    declared = [re.match(r"[\w.-]+", text)[0] for text in PROJECT["dependencies"]]
    brought = {file.parts[0].removesuffix(".py") for name in declared for file in distribution(name).files or ()}
    assert {name: file for name, file in needed.items() if name not in brought} == {}


def test_every_extra_that_a_message_names_exists():
    form = r"mdfl_jax\[([a-z-]+)\]'|extra=\"([a-z-]+)\"|package\(\"([a-z-]+)\""
    named = {extra for path in FILES for found in re.findall(form, path.read_text()) for extra in found if extra}
    assert named >= {"hf", "tfds", "slurm", "ray"}
    assert named <= set(PROJECT["optional-dependencies"])
