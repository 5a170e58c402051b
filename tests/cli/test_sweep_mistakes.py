"""`mdfl sweep` with wrong arguments or a wrong config file: one line, status 2, and nothing is written.

What is wrong with a field, whether a command line or a file sets it, is in tests/config/test_mistakes.py.
"""

import importlib.util
import os
import re
import shlex
import shutil
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from shell import ROOT
from small import TINY

from mdfl_jax.cli import common, sweep
from mdfl_jax.contrib.cluster import slurm

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections
LONG = "a" * 5000
HUGE = ",".join(map(str, range(100_000)))
ARGUMENTS = """
--workdir=--overwrite => --workdir=--overwrite: a value is missing
--confg=x => unknown flag --confg=x (did you mean --config=x?); --help lists the flags
--rounds=3 => unknown flag --rounds=3 (did you mean --config.rounds=3?)
--grid_szie=5 => unknown flag --grid_szie=5 (did you mean --config.network.grid_size=5?)
extra => unexpected argument 'extra'; settings are given as --name=value
--overwrite=maybe => flag --overwrite=maybe: it must be true or false
--workdir => Missing value for flag --workdir
--flagfile=/nope => --flagfile=/nope: there is no such file
--config.network.radis=3 => unknown config key 'network.radis' (did you mean 'network.radius'?); 
--config.data.name=/nowhere/mine.csv => data.name is '/nowhere/mine.csv', a path; a file is named by its folder
--config.data.name=cifar10 => reads a prepared one; data.name=digits needs no files, as in mdfl sweep digits
--config.engine.client_devices=3 => engine.client_devices is 3; it must divide the 8 devices and the 6
--config.network.mobility=dam => --config.network.mobility is given, and the sweep varies this field
--config.sweep=network.radius=HUGE --config.baseline= => sweep has 100,000 points; at most 10,000 are allowed
--config.rounds=100000000 => rounds is 100000000; it must be at most 2000000: a run has at most 1,000,000 evaluations
--target=h100 => --target=h100 is for --dry_run; a study runs on the devices that are there
--workers=2 --dry_run => --workers=2 is given with --dry_run: it runs nothing
--workers=2 --cluster=cpus=4 => --cluster=cpus=4 is for --on=slurm and --on=ray
--on=slurm --cluster=cpus => --cluster=cpus: 'cpus' is no key=value, such as partition=gpu,time=120,cpus=4
--hosts=3/2@a:1 => --hosts=3/2@a:1: it must be I/K@HOST:PORT, such as 2/4@10.0.0.1:8476 for the second of four hosts
--dry_run --target=h10 => --target=h10: unknown target 'h10' (did you mean 'h100'?); known: a100, cpu, h100
--config=nope.py => --config=nope.py: there is no such file; unknown study 'nope'; among the
--config --overwrite => --config=--overwrite: there is no such file
--config=configs/madfl.py:t9 --scale=small => unknown argument 't9'; known: f2,
--config=configs/madfl.py:f8 --scale=small => argument 'f8' is in parts here: f8_35, f8_50
--config=configs/digits.py --scale=small => --scale=small: configs/digits.py has no presets
--use=nope.py => use is 'nope.py': there is no such file
--workdir={tiny} => tiny.py is not a directory
"""


@pytest.fixture
def told(mistake, tmp_path, monkeypatch):
    """Runs the command with wrong arguments on the tiny study; returns its line, checked to be all that it did."""
    monkeypatch.chdir(ROOT)
    for name in [name for name in os.environ if name.startswith(("SLURM_", "TPU_WORKER", "OMPI_", "MDFL_DATA"))]:
        monkeypatch.delenv(name)
    (tmp_path / "tiny.py").write_text(TINY)

    def call(*args, config="tiny.py"):
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        line = mistake(sweep, "--cache=", f"--config={tmp_path / config}", f"--workdir={tmp_path / 'run'}", *args)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.suffix != ".pyc"} == before
        return line

    return call


@pytest.mark.parametrize("case", ARGUMENTS.strip().splitlines())
def test_a_wrong_argument_is_one_line_at_once(told, tmp_path, case):
    """Without the bounds of numbers it is minutes."""
    given, expected = case.replace("{tiny}", str(tmp_path / "tiny.py")).split(" => ")
    start = time.process_time()
    assert expected in told(*(word.replace("HUGE", HUGE) for word in shlex.split(given)))
    assert time.process_time() - start < 30


def test_a_missing_config_file_compiler_package_or_cluster_is_told(mistake, told, monkeypatch):
    assert "--config=FILE is missing, for example --config=configs/digits.py" in mistake(sweep)
    assert "--scale=small is for --config=FILE" in mistake(sweep, "--scale=small")
    find = importlib.util.find_spec
    there = lambda name, *more: find(name, *more) if name in ("sklearn", "mdfl_jax") else None  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", there)
    line = told("--dry_run", "--target=tpu-v4:2x2x1")
    assert "the compiler of that device is not installed; pip install -e '.[aot-tpu]'" in line
    assert "--on=slurm needs the package submitit: pip install 'mdfl_jax[slurm]'" in told("--on=slurm")
    assert "--on=ray needs the package ray: pip install 'mdfl_jax[ray]'" in told("--on=ray")
    monkeypatch.setattr(slurm, "package", lambda place, name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    line = told("--on=slurm")
    assert "there is no SLURM here, since no command sbatch is found; --cluster=executor=local starts" in line


FILES = """
def get_config(: => bad.py:1: SyntaxError: invalid syntax
x = 1 => bad.py': it has no function get_config, which returns the configuration; a file that only registers
def get_config(): import sys; sys.exit('why') => bad.py:1: SystemExit: why
def get_config(): return 3 => get_config() returned 3; it must return a ConfigDict
def get_config(): return get_config() => bad.py:1: RecursionError: maximum recursion depth exceeded
def get_config(): raise RuntimeError('two\\nlines') => bad.py:1: RuntimeError: two lines
def get_config(): open('/nope/x') => bad.py:1: FileNotFoundError:
TINY; get_config().network.radus = 3 => unknown config key 'radus' (did you mean 'radius'?)
TINY; get_config().seeds = 'a' => TypeError: Could not override field 'seeds'
def get_config(argument): return len(3) => bad.py:1: TypeError: object of type 'int' has no len()
"""  # the last one is no file without presets, which raises a TypeError too


@pytest.mark.parametrize("case", FILES.strip().splitlines())
def test_a_wrong_config_file_is_told_with_its_line(told, tmp_path, case):
    content, _, expected = case.partition(" => ")
    (tmp_path / "bad.py").write_text(content.replace("TINY; ", TINY))
    line = told(*["--scale=small"] * ("argument" in content), config="bad.py")
    assert expected in line
    assert len(line) < 600


PATHS = """
--config.model.pretrained={}.npz --config.model.name=resnet18 --config.model.norm=batch
--config.graph.file={} --config.network.graph=file --config.sweep= --config.baseline=
--config.trace.file={} --config.network.mobility=trace --config.sweep= --config.baseline=
--config.server.file={} --config.server.pattern=table
--config.data.dir={} --config.data.name=mine
--config.data.name={}
--config.use={}
--use={}
--workdir={}
--config={}
--cache={}
--config.name={}
--flagfile={}
"""


@pytest.mark.parametrize("arguments", PATHS.strip().splitlines())
def test_a_path_that_cannot_be_is_one_short_line(told, arguments, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for path in (LONG, f"/tmp/{LONG}", "two\nlines"):
        if path != "two\nlines" or not any(of in arguments for of in ("--workdir", "--cache", "name={}")):  # a folder's
            assert len(told(*(word.format(path) for word in arguments.split()))) < 1500


def test_a_study_of_which_a_point_diverges_ends_with_a_warning_and_status_0(call, tmp_path):
    (tmp_path / "tiny.py").write_text(TINY)
    words = f"--config={tmp_path / 'tiny.py'}", f"--workdir={tmp_path / 'run'}", "--noreport", "--cache="
    steps = "--config.sweep=algorithm.lr=0.1,1e30", "--config.baseline=", "--config.algorithm.weight_decay=0.01"
    status, out, err = call(sweep, *words, *steps)
    assert status == 0
    assert out.startswith("tiny: 2 points x 2 seeds = 4 runs of 4 rounds, evaluated every 2; 1 compiled program")
    (line,) = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert line.startswith("warning: lr=1e+30: diverged: seed 0 in round 1 with norm ")
    assert "; seed 1 in round 1 with norm " in line
    assert line.endswith(" (algorithm.lr is 1e+30; a smaller step may help)")
    assert "models DIVERGED, and are in no mean: lr=1e+30 (seeds 0 and 1)" in " ".join(out.split())
    status, _, err = call(sweep, *words, *steps)  # a finished study is not warned of again
    assert (status, "warning" in err) == (0, False)


@pytest.mark.long
def test_a_study_that_fits_nowhere_names_what_makes_it_fit_and_no_dry_run_says_it_is_well(call, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    images = np.zeros((60, 8, 8, 3), np.uint8)
    labels = (np.arange(60) % 10).astype(np.int32)
    np.savez(tmp_path / "cifar10.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    few = """network.num_clients=2 network.num_mobile=1 seeds=1 rounds=1 eval_every=1 engine.memory_mib=1
        sweep= baseline= model.name=mlp model.widths=8192 model.norm=batch algorithm.batch_size=0
        data.flip=false data.crop=0"""
    few = [*few.split(), f"data.dir={tmp_path}"]
    words = ["--config=configs/cifar_resnet.py:madfl", "--cache=", *(f"--config.{field}" for field in few)]
    status, out, _ = call(sweep, *words, "--dry_run")
    assert status == 1
    assert " of 1\n    does not fit: " in out
    status, _, err = call(sweep, *words, f"--workdir={tmp_path / 'run'}")
    assert status == 2
    assert "one run of 2 clients needs" in err


def test_how_a_command_ends_with_an_error(call, capfd, tmp_path):
    """A long word is shortened, a lack of memory is one line, Ctrl-C is no traceback, other errors are not hidden."""

    def raising(error):
        def main():
            raise error

        return main

    with pytest.raises(SystemExit):
        common.fail(f"it is {LONG} long")
    assert capfd.readouterr().err == f"error: it is {'a' * 100}...{'a' * 100} long\n"
    out_of_memory = "RESOURCE_EXHAUSTED: Out of memory allocating 1048576 bytes.\nmore"
    with pytest.raises(SystemExit) as ended:
        common.call(raising(jax.errors.JaxRuntimeError(out_of_memory)))
    assert ended.value.code == 2
    err = capfd.readouterr().err
    assert err.startswith("error: not enough memory: 1.0 MiB were asked for; less is needed with fewer clients")
    assert err.count("\n") == 1
    with pytest.raises(SystemExit):  # of a file that is none of the package's
        common.call(raising(jax.errors.JaxRuntimeError("INTERNAL: a bug")))
    assert re.fullmatch(
        r"error: \S*test_sweep_mistakes.py:\d+: JaxRuntimeError: INTERNAL: a bug\n", capfd.readouterr().err
    )
    (tmp_path / "slow.py").write_text("raise KeyboardInterrupt")  # it comes wherever the file is just then
    assert call(sweep, f"--config={tmp_path / 'slow.py'}") == (130, "", "stopped\n")
    with pytest.raises(ValueError, match=r"--cache=.* it is not a directory"):
        common.setup_jax(str(Path(__file__)))
