"""A file in a family's folder is a member, wherever it stands in the order of imports: no list of imports names it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mdfl_jax

MEMBERS = {  # by the folder of a family: where the registries are
    "algorithms": ["algorithms.registry.ALGORITHMS"],
    "contrib/algorithms": ["algorithms.registry.ALGORITHMS"],
    "contrib/cluster": ["study.workers.CREWS"],
    "contrib/convolutions": ["models.conv.FORMS"],
    "contrib/formats/data": ["data.formats.FORMATS"],
    "contrib/formats/sources": ["data.sources.PREPARED"],
    "contrib/formats/traces": ["traces.reading.TRACE_FORMATS"],
    "contrib/graphs": ["networks.graphs.GRAPHS"],
    "contrib/loggers": ["config.checks.LOGGERS"],
    "contrib/mobility": ["mobility.registry.MOBILITIES"],
    "contrib/sequences": ["models.model.MODELS"],
    "contrib/nnx": ["models.adapters.OTHERS"],
    "contrib/strategies": ["mobility.registry.MOBILITIES"],
    "contrib/terrains": ["mobility.choosing.TERRAINS"],
    "contrib/panels": ["report.registry.FIGURES"],
    "contrib/pretrained": ["models.weights.WEIGHTS"],
    "contrib/robust/attacks": ["attacks.registry.ATTACKS"],
    "contrib/robust/rules": ["exchange.aggregation.AGGREGATIONS"],
    "attacks/members": ["attacks.registry.ATTACKS"],
    "data/formats": ["data.formats.FORMATS"],
    "data/partition": ["data.partition.PARTITIONS"],
    "data/sources": ["data.sources.SOURCES"],
    "exchange": ["exchange.aggregation.AGGREGATIONS", "exchange.compressors.COMPRESSORS"],
    "models/zoo": ["models.model.MODELS"],
    "networks": ["networks.graphs.GRAPHS", "networks.meetings.PATTERNS", "networks.mixing.MIXINGS",
                 "networks.costs.SHORT_CONTACTS"],
    "contrib/partitions": ["data.partition.PARTITIONS"],
    "contrib/presence": ["contrib.presence.presence.PRESENCES"],
    "contrib/radios": [f"contrib.radios.radio.{name}" for name in ("FADINGS", "RADIOS", "RATES", "SHARINGS")],
    "report/panels": ["report.registry.FIGURES"],
    "tasks": ["tasks.task.TASKS"],
    "tasks/losses": ["tasks.losses.LOSSES"],
    "traces/formats": ["traces.reading.TRACE_FORMATS"],
}  # fmt: skip
METRIC = "from mdfl_jax.metrics.declare import metric\nmetric('mine', still=None)(lambda at: at.score.loss)\n"
IMPORT = "from mdfl_jax.{0[0]} import {0[2]}\n"


def test_a_file_in_the_folder_of_a_family_is_a_member(tmp_path):
    package = Path(mdfl_jax.__file__).parent
    shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    look = "import mdfl_jax.contrib.formats.traces.waypoints\n"  # the last file of its folder, imported first
    for folder, registries in MEMBERS.items():
        mine = f"mine_of_{folder.rpartition('/')[2]}" if folder.startswith("contrib/") else "mine"  # no name twice
        found = [path.rpartition(".") for path in registries]
        imports = "".join(map(IMPORT.format, found))
        made = "".join(f"{name}.register('{mine}')(mine)\n" for *_, name in found)
        (tmp_path / package.name / folder / "mine.py").write_text(f"{imports}\ndef mine(*given):\n    ...\n\n{made}")
        look += imports + "".join(f"assert '{mine}' in {name}, {name}.kind\n" for *_, name in found)
    (tmp_path / package.name / "metrics" / "built_in" / "mine.py").write_text(METRIC)
    (tmp_path / package.name / "contrib" / "predictions" / "mine.py").write_text(METRIC.replace("mine", "predicted"))
    look += "from mdfl_jax.metrics import METRICS\nassert {'mine', 'predicted'} <= {*METRICS}\n"
    look += "from mdfl_jax.algorithms import mine\nassert mine is ALGORITHMS['mine']\n"
    found = subprocess.run([sys.executable, "-c", look], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


WITHOUT = """
import sys
sys.modules["mdfl_jax.contrib"] = None  # as if it were not installed
import mdfl_jax
from mdfl_jax.cli import families
from mdfl_jax.cli.commands import DRY_RUNS, commands

assert "theory" not in commands() and not list(DRY_RUNS)
families.listing()
small = {"rounds": 2, "eval_every": 2, "seeds": 1, "model.name": "linear", "network.num_clients": 6}
mdfl_jax.run(small, workdir="study", progress=False)
for changed, missing in (
    ({"algorithm.name": "swift"}, "algorithms, mdfl_jax.contrib.personal"),
    ({"network.mobility": "patrol"}, "mobility, mdfl_jax.contrib.strategies"),
    ({"algorithm.aggregation": "krum"}, "robust.rules, mdfl_jax.contrib.personal"),
    ({"loggers": "wandb"}, "loggers"),
):
    try:
        mdfl_jax.run(small | changed, workdir="other", progress=False)
    except mdfl_jax.UserError as error:
        assert str(error).endswith(f"; not installed: mdfl_jax.contrib.{missing}"), error
    else:
        raise AssertionError(changed)
"""


@pytest.mark.long
def test_the_core_works_without_contrib_and_an_error_names_what_is_missing(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(mdfl_jax.__file__).parents[1])}
    command = [sys.executable, "-c", WITHOUT]
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
