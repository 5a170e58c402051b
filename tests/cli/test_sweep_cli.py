"""The launchers as a user meets them, in processes of their own: files, exit statuses, lines on standard error."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest
from shell import ROOT, ended, start
from small import TINY

from mdfl_jax.cli import info

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(TINY)
    return path


def launch(module, *args):
    """Starts a launcher on two host devices, with programs that compile fast."""
    return start(module, *args, JAX_DISABLE_MOST_OPTIMIZATIONS="1")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("xla")


@pytest.mark.long
def test_a_study_from_the_shell_and_its_report_made_again(tiny, tmp_path, cache):
    workdir = tmp_path / "run"
    status, out, err = ended(launch("sweep", f"--config={tiny}", f"--workdir={workdir}", f"--cache={cache}"))
    assert (status, err) == (0, "")
    assert out.startswith("tiny: 2 points x 2 seeds = 4 runs of 4 rounds, evaluated every 2; 1 compiled program")
    assert "vs baseline (pp)" in out
    assert out.rstrip().endswith(f"report: {workdir / 'report.html'}")
    assert (workdir / "figures").is_dir()
    assert f"launch.sweep --config={tiny}" in json.loads((workdir / "config.json").read_text())["command"]
    before = (workdir / "report.html").read_bytes()
    (workdir / "report.html").unlink()
    shutil.rmtree(workdir / "tables")
    assert ended(launch("report", f"--workdir={workdir}")) == (0, f"{workdir / 'report.html'}\n", "")
    assert (workdir / "report.html").read_bytes() == before
    assert ended(launch("report", f"--workdir={workdir}", "--x=round")) == (0, f"{workdir / 'report.html'}\n", "")
    assert (workdir / "report.html").read_bytes() == before
    assert (workdir / "tables" / "summary.csv").is_file()
    empty = workdir / "figures"
    status, out, err = ended(launch("report", f"--workdir={empty}"))
    assert (status, out) == (2, "")
    assert err == f"error: {empty}: it holds no study: there is no config.json\n"


@pytest.mark.long
def test_sigterm_ends_with_130_and_the_same_command_goes_on(tiny, tmp_path, cache):
    """That the result is the one of a run which nobody stopped is checked in tests/storage."""
    stopped = tmp_path / "stopped"
    args = f"--config={tiny}", "--config.rounds=400", f"--cache={cache}", "--noreport", f"--workdir={stopped}"
    first = launch("sweep", *args)
    while not (stopped / "metrics.jsonl").exists() or (stopped / "metrics.jsonl").stat().st_size < 10_000:
        assert first.poll() is None
        time.sleep(0.02)
    first.send_signal(signal.SIGTERM)
    status, _, err = ended(first)
    assert status == 130
    assert err.splitlines() == [
        "stopping after this evaluation, and saving the state (once more: stop at once, without saving) ...",
        f"stopped; the same command, without --overwrite, goes on where {stopped} was left",
    ]
    assert not (stopped / "summary.json").exists()
    status, out, err = ended(launch("sweep", *args))
    assert (status, err) == (0, "")
    assert f"going on with the unfinished study in {stopped}" in out
    assert (stopped / "metrics.jsonl").read_text().count("\n") == 2 * 2 * 201
    assert sorted(path.name for path in stopped.iterdir() if path.is_dir()) == ["runs"]


@pytest.mark.long
def test_a_study_of_which_a_point_diverges_ends_with_a_warning_and_status_0(tiny, tmp_path, cache):
    args = f"--config={tiny}", f"--workdir={tmp_path / 'run'}", f"--cache={cache}", "--noreport"
    steps = "--config.sweep=algorithm.lr=0.1,1e30", "--config.baseline=", "--config.algorithm.weight_decay=0.01"
    status, out, err = ended(launch("sweep", *args, *steps))
    assert status == 0
    (line,) = err.splitlines()
    assert line.startswith("warning: lr=1e+30: diverged: seed 0 in round 1 with norm ")
    assert "; seed 1 in round 1 with norm " in line
    assert line.endswith(" (algorithm.lr is 1e+30; a smaller step may help)")
    assert "models DIVERGED, and are in no mean: lr=1e+30 (seeds 0 and 1)" in " ".join(out.split())
    assert ended(launch("sweep", *args, *steps))[::2] == (0, "")  # a finished study is not warned of again


def test_info_says_versions_and_devices(call):
    status, out, err = call(info)
    assert (status, err) == (0, "")
    assert "\nmdfl_jax 0." in out
    assert out.count("\ndevice cpu:") == 8
    assert "\ncompilation cache " in out


def test_mistakes_before_flags_are_parsed(tmp_path):
    """Those that absl's own start would meet."""
    status, out, err = ended(launch("sweep", "--flagfile=/nope", f"--workdir={tmp_path / 'run'}"))
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert "Unable to open flagfile" in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_dry_run_tells_the_plan_and_writes_nothing(tiny, tmp_path):
    command = [sys.executable, "-m", "launch.sweep", f"--config={tiny}", f"--workdir={tmp_path / 'run'}", "--dry_run"]
    done = subprocess.run([*command, f"--cache={tmp_path / 'cache'}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "GFLOP a round" in done.stdout
    assert "seeds (runs) that fit together" in done.stdout
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--suite=mnist", "unknown suite 'mnist' (did you mean 'mnist_round'?); known: "),
        ("--suite=digits_round --vs=tensorflow", "unknown rival 'tensorflow'; known: torch"),
        ("--suite=digits_round --precision=half", "unknown precision 'half'; known: bfloat16, float32, tensorfloat32"),
    ],
)
def test_a_wrong_benchmark_is_one_line_that_lists_the_known(argument, expected):
    command = [sys.executable, "-m", "benchmarks.throughput", *argument.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1
