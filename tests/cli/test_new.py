"""`mdfl new`: what it writes works as it stands, and what it refuses."""

import importlib
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shell import without_stages

from mdfl_jax.cli import new
from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study, run_study

pytestmark = pytest.mark.usefixtures("unregistered", "sources_as_before")
KINDS = (
    *("algorithm", "compressor", "dataset", "figure", "graph", "loss", "metric"),
    *("mixing", "mobility", "model", "partition"),
)


@pytest.fixture
def sources_as_before(monkeypatch):
    from mdfl_jax.data.sources import SOURCES

    SOURCES.discover()
    for table in ("_members", "_numbers", "_docs", "_origins"):
        monkeypatch.setattr(SOURCES, table, dict(getattr(SOURCES, table)))


def test_there_is_a_template_and_a_test_of_each_kind():
    assert new.kinds() == list(KINDS)
    for kind in KINDS:
        assert (new.TEMPLATES / f"test_{kind}.py").is_file()


def test_every_kind_can_be_checked_for_its_names():
    for kind in KINDS:
        new.check(kind, "quite_new_name")


def test_the_name_stands_everywhere(tmp_path):
    own, test = new.write("mobility", "slow_walk", tmp_path)
    assert (own.name, test.name) == ("slow_walk.py", "test_slow_walk.py")
    for path in (own, test):
        assert "my_name" not in path.read_text()
        assert "MyName" not in path.read_text()
    assert "class SlowWalkNumbers(Numbers):" in own.read_text()
    assert '@MOBILITIES.register("slow_walk", SlowWalkNumbers)' in own.read_text()


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("", "", "a kind and a name are needed"),
        ("mobility", "", "a kind and a name are needed"),
        ("mobilty", "mine", r"unknown kind 'mobilty' \(did you mean 'mobility'\?\)"),
        ("mobility", "my-rule", "it must be letters, digits and underscores"),
        ("mobility", "2nd", "it must be letters, digits and underscores"),
        ("mobility", "class", "it must be letters, digits and underscores"),
        ("mobility", "../x", "it must be letters, digits and underscores"),
        ("mobility", "_x", "it must be letters, digits and underscores"),
        ("mobility", "dcm", "there is a mobility of this name already"),
        ("dataset", "digits", "there is a dataset of this name already"),
        ("metric", "accuracy", "there is a metric of this name already"),
        ("figure", "random", "a file random.py would hide a module of this name"),
        ("mobility", "jnp", "the file of a mobility uses this word already"),
        ("model", "flax", "a file flax.py would hide a module of this name"),
    ],
)
def test_a_wrong_kind_or_name_is_refused(kind, name, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=expected):
        new.check(kind, name)


@pytest.mark.parametrize("there", ["mine.py", "test_mine.py"])
def test_no_file_is_overwritten(there, tmp_path):
    (tmp_path / there).write_text("precious")
    with pytest.raises(UserError, match=rf"{there} exists; nothing is written"):
        new.write("graph", "mine", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "precious"


def test_if_the_second_file_cannot_be_written_the_first_is_not_there(tmp_path, monkeypatch):
    def fill_in(template, name):
        if template.name.startswith("test_"):
            raise OSError(28, "No space left on device")
        return "text"

    monkeypatch.setattr(new, "fill_in", fill_in)
    with pytest.raises(UserError, match=r"test_mine\.py: it cannot be written: No space left on device"):
        new.write("graph", "mine", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_every_kind_runs_as_a_study_and_passes_its_own_test(tmp_path, monkeypatch):
    """A study of two rounds of each in this process; then their tests, and the command itself, in other processes."""
    monkeypatch.chdir(tmp_path)
    for kind in KINDS:
        new.check(kind, f"own_{kind}")
        own, _ = new.write(kind, f"own_{kind}", Path())
        config = runpy.run_path(str(own))["get_config"]()
        config.seeds, config.rounds, config.eval_every = 1, 2, 1
        config.network.num_clients, config.network.num_mobile, config.network.grid_size = 12, 2, 5
        config.data.limit_train, config.data.limit_test = 120, 60
        if kind != "model":
            config.model.name = "linear"
        summary = run_study(make_study(config), tmp_path / kind, log=lambda line: None)
        for point in summary["points"]:
            assert np.isfinite(point["final_accuracy"]["mean"])
        manifest = json.loads((tmp_path / kind / "config.json").read_text())
        assert manifest["name"] == f"own_{kind}"
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "."], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    functions = sum(path.read_text().count("def test_") for path in Path().glob("test_*.py"))
    assert int(re.search(r"(\d+) passed", done.stdout).group(1)) >= functions >= len(KINDS)


@pytest.mark.long
def test_the_command_says_what_it_wrote(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(new.__file__).parents[2])}
    command = [sys.executable, "-m", "mdfl_jax.cli.entry", "new", "metric", "own_metric"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, without_stages(done.stderr)) == (0, "")
    assert done.stdout == (
        "wrote own_metric.py and test_own_metric.py\n"
        "  mdfl sweep ./own_metric.py\n"
        "  python -m pytest test_own_metric.py\n"
    )
    again = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (again.returncode, again.stdout) == (2, "")
    told = "error: own_metric.py exists; nothing is written, choose another name or remove the file\n"
    assert without_stages(again.stderr) == told


def test_the_templates_are_the_examples_of_the_page_on_extending():
    """The page and the templates register members in the same way: each import of a template stands in the page."""
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    for kind in ("mobility", "algorithm", "compressor", "metric", "figure"):
        for line in (new.TEMPLATES / f"{kind}.py").read_text().splitlines():
            if line.startswith("from mdfl_jax"):
                assert line in page, f"{kind}: {line}"
    assert importlib.util.find_spec("my_name") is None
