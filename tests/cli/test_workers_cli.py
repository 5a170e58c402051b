"""`launch.sweep --workers=K`, --on and --cluster: what does not go together is one line, and nothing is written."""

import importlib.util
import shutil

import pytest
from small import TINY

from mdfl_jax.cli import sweep
from mdfl_jax.core import hosts
from mdfl_jax.study import crew

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections


@pytest.fixture
def told(mistake, tmp_path, monkeypatch):
    """Runs launch.sweep with flags that are wrong; returns its line, checked to be all that it did."""
    (tmp_path / "tiny.py").write_text(TINY)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)

    def call(*args):
        line = mistake(sweep, "--cache=", f"--config={tmp_path / 'tiny.py'}", f"--workdir={tmp_path / 'run'}", *args)
        assert not (tmp_path / "run").exists()
        return line

    return call


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("--workers=2 --shard=1/2", "--workers=2 is given with --shard: a shard is a part for one process"),
        ("--workers=2 --dry_run", "--workers=2 is given with --dry_run: it runs nothing"),
        ("--on=ray --dry_run --target=h100", "--on=ray is given with --target: it runs nothing"),
        ("--workers=2 --cluster=cpus=4", "--cluster=cpus=4 is for --on=slurm and --on=ray"),
        ("--on=slurm --cluster=cpus", "--cluster=cpus: 'cpus' is no key=value, such as partition=gpu,time=120,cpus=4"),
        ("--hosts=1/2@a:1 --workers=2", "--hosts=1/2@a:1 is given with --workers: hosts compute one study together"),
        ("--hosts=auto --shard=1/2", "--hosts=auto is given with --shard: hosts compute one study together"),
        ("--hosts=auto --dry_run", "--hosts=auto is given with --dry_run: hosts compute one study together"),
        ("--hosts=3/2@a:1", f"--hosts=3/2@a:1: it must be {hosts.FORM}"),
        ("--workers=0", "flag --workers=0: 0 is not an integer in the range [1, 1000]"),
    ],
)
def test_flags_that_do_not_go_together_are_one_line(told, flags, line):
    assert told(*flags.split()) == f"error: {line}\n"


@pytest.mark.parametrize(("place", "package"), [("slurm", "submitit"), ("ray", "ray")])
def test_a_missing_package_is_one_line_with_the_command(told, monkeypatch, place, package):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == package else find(name, *more))
    assert (
        told(f"--on={place}") == f"error: --on={place} needs the package {package}: pip install 'mdfl_jax[{place}]'\n"
    )


def test_without_slurm_there_is_one_line_that_names_the_local_executor(told, monkeypatch):
    monkeypatch.setattr(crew, "_package", lambda place, name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "there is no SLURM here, since no command sbatch is found; --cluster=executor=local starts" in told(
        "--on=slurm"
    )
