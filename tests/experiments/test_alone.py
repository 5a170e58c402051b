"""Two commands on one workdir: the second one ends with one line."""

import os
import subprocess
import sys

import pytest

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.run import alone as module
from mdfl_jax.experiments.run.alone import alone


def test_a_workdir_is_reserved_until_the_end_and_no_other_one_is(tmp_path):
    with alone(tmp_path / "run"):
        with (
            pytest.raises(UserError, match=f"run: process {os.getpid()} is writing to it"),
            alone(tmp_path / "a/../run"),
        ):
            pass
        with alone(tmp_path / "other"):
            pass
    with alone(tmp_path / "run"):
        pass
    assert not list(tmp_path.iterdir())


def test_without_locks_of_files_as_on_windows_nothing_is_reserved(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "fcntl", None)
    monkeypatch.delattr(os, "getuid")
    with alone(tmp_path / "run"), alone(tmp_path / "run"):
        pass
    with pytest.raises(KeyError), alone(tmp_path / "run"):  # an error of the study stays what it is
        raise KeyError


def test_a_process_that_was_killed_has_given_it_back(tmp_path):
    code = "import os, sys; from pathlib import Path; from mdfl_jax.experiments.run.alone import alone\n"
    code += "with alone(Path(sys.argv[1])): print('there', flush=True); os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True)
    assert killed.stdout == "there\n"
    with alone(tmp_path / "run"):
        pass
