"""`mdfl sweep` as a user meets it: exit statuses, and lines on standard error."""

import functools
import signal

import pytest
from forked import Started, signal_at
from small import TINY

from mdfl_jax.cli import sweep

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections


@pytest.fixture
def words(tmp_path):
    (tmp_path / "tiny.py").write_text(TINY)
    return [f"--config={tmp_path / 'tiny.py'}", f"--workdir={tmp_path / 'run'}", "--noreport", "--cache="]


@pytest.mark.long
def test_sigterm_ends_with_130_and_the_same_command_goes_on(words, tmp_path):
    """That the result is the one of a run which nobody stopped is checked in tests/study."""
    stop, run = functools.partial(signal_at, 3, signal.SIGTERM), tmp_path / "run"
    ended = Started(tmp_path / "said", "sweep", *words, "--config.rounds=12", patch=stop).ended()
    assert ended.status == 130
    assert ended.said().splitlines() == [
        "stopping after this evaluation, and saving the state (once more: stop at once, without saving) ...",
        f"stopped; the same command, without --overwrite, goes on where {run} was left",
    ]
    assert not (run / "summary.json").exists()
    ended = Started(tmp_path / "said", "sweep", *words, "--config.rounds=12").ended()
    assert (ended.status, ended.said()) == (0, "")
    assert f"going on with the unfinished study in {run}" in ended.out
    assert (run / "metrics.jsonl").read_text().count("\n") == 4 * 7
    assert sorted(path.name for path in run.iterdir() if path.is_dir()) == ["runs"]


def test_a_study_of_which_a_point_diverges_ends_with_a_warning_and_status_0(call, words):
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
