"""The environment of a command: variables of JAX and matplotlib that are wrong or strict, and a folder that is gone."""

import os
import subprocess
import sys

import pytest
from shell import ROOT

pytestmark = pytest.mark.long
STUDY = ("--config=configs/digits.py", "--dry_run", "--config.rounds=2", "--config.eval_every=2", "--config.seeds=1")


def ended(*words, cwd=ROOT, **variables):
    """(status, standard error) of a command in a process of its own, since JAX reads its variables only once."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", *words]
    found = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    return found.returncode, [line for line in found.stderr.splitlines() if not line.startswith("mdfl_jax: ")]


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"JAX_PLATFORMS": "bogus"}, "error: the variable JAX_PLATFORMS is 'bogus', and JAX finds no such device here"),
        ({"JAX_ENABLE_X64": "maybe"}, "error: the variable JAX_ENABLE_X64 is 'maybe': invalid truth value"),
        ({"JAX_NUMPY_DTYPE_PROMOTION": "x"}, "error: the variable JAX_NUMPY_DTYPE_PROMOTION is 'x': Invalid value"),
    ],
)
def test_a_variable_that_jax_does_not_know_is_told_in_one_line(variables, told):
    status, said = ended("launch.sweep", *STUDY, **variables)
    assert status == 2
    assert len(said) == 1
    assert said[0].startswith(told)


def test_strict_promotion_and_other_backends_of_figures_do_not_matter(tmp_path):
    """A study sets what it needs, and draws into files."""
    words = ("launch.sweep", *(word for word in STUDY if word != "--dry_run"), "--config.sweep=", "--config.baseline=")
    strict = {"JAX_NUMPY_DTYPE_PROMOTION": "strict", "JAX_NUMPY_RANK_PROMOTION": "raise", "MPLBACKEND": "bogus"}
    status, said = ended(*words, f"--workdir={tmp_path / 'run'}", **strict)
    assert status == 0, said
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_folder_that_was_removed(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = "import os, runpy; os.rmdir(os.getcwd()); runpy.run_module('launch.info', run_name='__main__')"
    command, environment = [sys.executable, "-c", script], {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, cwd=gone, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in found.stderr
    assert found.returncode in (0, 2)
