"""The scripts of docs/hosts.md, run as printed, with stand-ins for the commands of the clusters."""

import importlib.util
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from forked import programs
from pages import ROOT
from shell import QUICK
from small import TINY

PAGE = (ROOT / "docs" / "hosts.md").read_text()
SCRIPTS = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', PAGE, re.M | re.S))


@pytest.fixture
def shell(tmp_path):
    """Runs a script of the page by name in a folder with a file `digits`, a study that takes a second."""
    (tmp_path / "digits").write_text(TINY.replace('"tiny", "A tiny study"', '"digits", "Digits"'))
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "TPU_", "PYTEST"))
    }
    path = f"{programs()}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    own = {
        "PATH": path,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "XLA_FLAGS": QUICK,
    }

    def run(name):
        (tmp_path / name).write_text(SCRIPTS[name])
        environment = kept | own | {"JAX_NUM_CPU_DEVICES": "2"}
        done = subprocess.run(
            ["bash", name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


def whole(folder, seeds=2):
    """Checks that a folder holds the whole study, as one process makes it."""
    assert json.loads((folder / "runs" / "digits" / "config.json").read_text())["status"] == "finished"
    with np.load(folder / "runs" / "digits" / "history.npz") as history:
        assert history["0/accuracy"].shape == history["1/accuracy"].shape == (seeds, 3, 6)


def test_the_page_has_a_script_for_each_way():
    assert set(SCRIPTS) == {"workers.sh", "slurm.sh", "submitit.sh", "ray.sh", "array.sbatch", "merge.sh"}


@pytest.mark.long
@pytest.mark.parametrize("script", ["workers.sh", "submitit.sh", "ray.sh"])
def test_workers_make_the_whole_study(script, tmp_path, shell):
    package = {"submitit.sh": "submitit", "ray.sh": "ray"}.get(script)
    if package and importlib.util.find_spec(package) is None:
        pytest.skip(f"the package {package} is not installed: pip install 'mdfl_jax[{script[:-3]}]'")
    said = shell(script)
    assert re.search(r"on 2 (workers|jobs of submitit|tasks of Ray)", said)
    whole(tmp_path)
    assert (tmp_path / "runs" / "digits" / "report.html").exists()
    assert not (tmp_path / "runs" / "digits" / "workers").exists()


@pytest.mark.long
def test_the_tasks_of_an_array_share_a_folder(tmp_path, shell):
    for _ in range(2):
        shell("array.sbatch")
    whole(tmp_path)


@pytest.mark.long
def test_machines_without_a_common_folder_compute_other_seeds(tmp_path, shell):
    shell("merge.sh")
    whole(tmp_path, seeds=6)
