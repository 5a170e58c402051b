"""`mdfl new`: what it writes works as it stands, and what it refuses."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shell import without_stages
from tiny import run_study

from mdfl_jax.cli import new
from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study

pytestmark = pytest.mark.usefixtures("unregistered", "sources_as_before")
KINDS = (
    *("aggregation", "algorithm", "compressor", "dataset", "figure", "graph", "loss", "metric"),
    *("mixing", "mobility", "model", "partition"),
)


@pytest.fixture
def sources_as_before(monkeypatch):
    from mdfl_jax.data.sources import SOURCES

    SOURCES.discover()
    for table in ("_members", "_numbers", "_docs", "_origins"):
        monkeypatch.setattr(SOURCES, table, dict(getattr(SOURCES, table)))


def test_there_is_an_example_of_each_kind():
    assert [*new.SECTIONS] == list(KINDS)
    for kind in KINDS:
        assert "def get_config():" in new.example(kind)


def test_every_kind_can_be_checked_for_its_names():
    for kind in KINDS:
        new.check(kind, "quite_new_name")


def test_the_name_stands_everywhere(tmp_path):
    own = new.write("mobility", "slow_walk", tmp_path)
    assert own.name == "slow_walk.py"
    assert "restless" not in own.read_text().lower()
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
        ("mobility", "jnp", "the example of a mobility uses this word already"),
        ("model", "flax", "a file flax.py would hide a module of this name"),
    ],
)
def test_a_wrong_kind_or_name_is_refused(kind, name, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=expected):
        new.check(kind, name)


def test_no_file_is_overwritten(tmp_path):
    (tmp_path / "mine.py").write_text("precious")
    with pytest.raises(UserError, match=r"mine\.py exists; nothing is written"):
        new.write("graph", "mine", tmp_path)
    assert (tmp_path / "mine.py").read_text() == "precious"
    with pytest.raises(UserError, match=r"mine\.py: it cannot be written: No such file or directory"):
        new.write("graph", "mine", tmp_path / "no")


@pytest.mark.long
def test_every_kind_runs_as_a_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in KINDS:
        new.check(kind, f"own_{kind}")
        own = new.write(kind, f"own_{kind}", Path())
        config = runpy.run_path(str(own))["get_config"]()
        config.seeds, config.rounds, config.eval_every = 1, 2, 1
        config.network.num_clients, config.network.num_mobile, config.network.grid_size = 12, 2, 5
        config.data.limit_train, config.data.limit_test = 120, 60
        if kind != "model":
            config.model.name = "linear"
        summary = run_study(make_study(config), tmp_path / kind)
        for point in summary["points"]:
            assert np.isfinite(point["final_accuracy"]["mean"])
        manifest = json.loads((tmp_path / kind / "config.json").read_text())
        assert manifest["name"] == f"own_{kind}"


@pytest.mark.long
def test_the_command_says_what_it_wrote(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(new.__file__).parents[2])}
    command = [sys.executable, "-m", "mdfl_jax.cli.entry", "new", "metric", "own_metric"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, without_stages(done.stderr)) == (0, "")
    assert done.stdout == ("wrote own_metric.py\n  mdfl sweep ./own_metric.py\n")
    again = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (again.returncode, again.stdout) == (2, "")
    told = "error: own_metric.py exists; nothing is written, choose another name or remove the file\n"
    assert without_stages(again.stderr) == told
