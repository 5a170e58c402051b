"""The environment of a command: variables of JAX and matplotlib that are wrong or strict, and a folder that is gone."""

import os
import subprocess
import sys

import pytest
from shell import ROOT
from small import TINY

pytestmark = pytest.mark.long


def ended(*words, cwd=ROOT, **variables):
    """(status, standard error) of a command in a process of its own, since JAX reads its variables only once."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", *words]
    found = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    return found.returncode, [line for line in found.stderr.splitlines() if not line.startswith("mdfl_jax: ")]


def test_a_variable_that_jax_does_not_know_is_told_in_one_line():
    status, said = ended("launch.sweep", "--config=configs/digits.py", "--dry_run", JAX_PLATFORMS="cuda")
    (line,) = said
    assert status == 2
    assert line.startswith("error: the variable JAX_PLATFORMS is 'cuda', and JAX finds no such device here")


def test_a_folder_that_was_removed(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    for start in ("launch.info", "launch.sweep", "mdfl_jax.cli.entry"):
        gone.mkdir(exist_ok=True)
        words = ["mdfl", *(["info"] if "entry" in start else [])]
        script = f"import os, runpy, sys; os.rmdir(os.getcwd()); sys.argv = {words}; "
        script += f"runpy.run_module({start!r}, run_name='__main__')"
        command, environment = [sys.executable, "-c", script], {**os.environ, "PYTHONPATH": str(ROOT)}
        found = subprocess.run(command, cwd=gone, env=environment, capture_output=True, text=True, check=False)
        said = "error: the current folder cannot be used: No such file or directory; change to another one\n"
        assert (found.returncode, found.stdout, found.stderr) == (2, "", said)


OWN = """
import jax
import jax.numpy as jnp
from mdfl_jax.config import default_config
from mdfl_jax.metrics import HOLDS, metric
from mdfl_jax.config.checks import LOGGERS
from mdfl_jax.contrib.loggers.line_logger import LineLogger


def fail(*_):
    raise ValueError("of the user")


@metric("odd", still=HOLDS, shape=(), on_request=True)
def odd(at):
    return jax.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.float32))


@LOGGERS.register("mine")
class Mine(LineLogger):
    def line(self, run, line):
        fail()


def get_config():
    config = default_config()
    settings = {"seeds": 1, "rounds": 2, "eval_every": 2, "model.name": "linear", "engine.client_devices": 1}
    config.update_from_flattened_dict(settings)
    return config
"""


@pytest.mark.parametrize("field", ["metrics=odd", "loggers=mine"])
def test_own_code_that_raises_while_a_study_runs_is_told_in_one_line(tmp_path, field):
    (tmp_path / "mine.py").write_text(OWN)
    status, said = ended("launch.sweep", "--config=mine.py", "--workdir=run", f"--config.{field}", cwd=tmp_path)
    errors = [line for line in said if line.startswith("error")]
    assert (status, errors) == (2, ["error: mine.py:11: ValueError: of the user"])
    assert not any(word in "\n".join(said) for word in ("Traceback", 'File "'))


def study_under(folder, *words, **variables):
    """Run a short study of a folder under some variables; return what it says, and the folder of its results."""
    (folder / "tiny.py").write_text(TINY)
    arguments = [f"--config={folder / 'tiny.py'}", f"--workdir={folder / 'run'}", *words]
    status, said = ended("launch.sweep", *arguments, cwd=folder, **variables)
    assert (status, [line for line in said if "Traceback" in line]) == (0, []), said
    return said, folder / "run"


def test_a_locale_of_ascii_writes_utf_8(tmp_path):
    folder = tmp_path / "Zürich µ"
    folder.mkdir()
    _, run = study_under(folder, LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    written = [path for path in run.rglob("*") if path.suffix in (".html", ".md", ".json", ".jsonl", ".tex", ".svg")]
    assert "Zürich µ" in "".join(path.read_text(encoding="utf-8") for path in written if path.suffix == ".html")
    assert len([path.read_text(encoding="utf-8") for path in written]) > 3


def test_a_search_for_nans_stops_at_none_of_our_own(tmp_path):
    """What diverged clients and those without samples score is NaN; what has diverged is named with its round."""
    empty = ("--config.data.partition=classes_per_client", "--config.data.classes_per_client=1")
    said, _ = study_under(
        tmp_path, *empty, "--config.network.num_clients=14", "--config.algorithm.lr=1e20", JAX_DEBUG_NANS="1"
    )
    assert any(line.startswith("warning: static: diverged: seed 0 in round 1 with norm ") for line in said)
