"""The launchers as a user meets them, in processes of their own: files, exit statuses, lines on standard error."""

import functools
import json
import shutil
import signal

import pytest
from forked import Started, signal_at
from small import TINY

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(TINY)
    return path


@pytest.fixture
def launch(tmp_path):
    """Start a command."""
    return lambda *words, patch=None: Started(tmp_path / "said", *words, patch=patch)


def outcome(command):
    """Return the exit status of a command, its standard output, and what it says on standard error."""
    ended = command.ended()
    return ended.status, ended.out, ended.said()


@pytest.mark.long
def test_a_study_from_the_shell_and_its_report_made_again(tiny, tmp_path, launch):
    workdir = tmp_path / "run"
    status, out, err = outcome(launch("sweep", f"--config={tiny}", f"--workdir={workdir}"))
    assert (status, err) == (0, "")
    assert out.startswith("tiny: 2 points x 2 seeds = 4 runs of 4 rounds, evaluated every 2; 1 compiled program")
    assert "vs baseline (pp)" in out
    assert out.rstrip().endswith(f"report: {workdir / 'report.html'}")
    assert (workdir / "figures").is_dir()
    assert f"launch.sweep --config={tiny}" in json.loads((workdir / "config.json").read_text())["command"]
    before = (workdir / "report.html").read_bytes()
    (workdir / "report.html").unlink()
    shutil.rmtree(workdir / "tables")
    assert outcome(launch("report", f"--workdir={workdir}")) == (0, f"{workdir / 'report.html'}\n", "")
    assert (workdir / "report.html").read_bytes() == before
    assert outcome(launch("report", f"--workdir={workdir}", "--x=round")) == (0, f"{workdir / 'report.html'}\n", "")
    assert (workdir / "report.html").read_bytes() == before
    assert (workdir / "tables" / "summary.csv").is_file()
    empty = workdir / "figures"
    status, out, err = outcome(launch("report", f"--workdir={empty}"))
    assert (status, out) == (2, "")
    assert err == f"error: {empty}: it holds no study: there is no config.json\n"


@pytest.mark.long
def test_sigterm_ends_with_130_and_the_same_command_goes_on(tiny, tmp_path, launch):
    """That the result is the one of a run which nobody stopped is checked in tests/study."""
    args = f"--config={tiny}", "--config.rounds=12", "--noreport", f"--workdir={tmp_path / 'stopped'}"
    stopped = tmp_path / "stopped"
    status, _, err = outcome(launch("sweep", *args, patch=functools.partial(signal_at, 3, signal.SIGTERM)))
    assert status == 130
    assert err.splitlines() == [
        "stopping after this evaluation, and saving the state (once more: stop at once, without saving) ...",
        f"stopped; the same command, without --overwrite, goes on where {stopped} was left",
    ]
    assert not (stopped / "summary.json").exists()
    status, out, err = outcome(launch("sweep", *args))
    assert (status, err) == (0, "")
    assert f"going on with the unfinished study in {stopped}" in out
    assert (stopped / "metrics.jsonl").read_text().count("\n") == 4 * 7
    assert sorted(path.name for path in stopped.iterdir() if path.is_dir()) == ["runs"]


@pytest.mark.long
def test_a_study_of_which_a_point_diverges_ends_with_a_warning_and_status_0(tiny, tmp_path, launch):
    args = f"--config={tiny}", f"--workdir={tmp_path / 'run'}", "--noreport"
    steps = "--config.sweep=algorithm.lr=0.1,1e30", "--config.baseline=", "--config.algorithm.weight_decay=0.01"
    status, out, err = outcome(launch("sweep", *args, *steps))
    assert status == 0
    (line,) = err.splitlines()
    assert line.startswith("warning: lr=1e+30: diverged: seed 0 in round 1 with norm ")
    assert "; seed 1 in round 1 with norm " in line
    assert line.endswith(" (algorithm.lr is 1e+30; a smaller step may help)")
    assert "models DIVERGED, and are in no mean: lr=1e+30 (seeds 0 and 1)" in " ".join(out.split())
    assert outcome(launch("sweep", *args, *steps))[::2] == (0, "")  # a finished study is not warned of again
