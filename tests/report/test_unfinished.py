"""Studies that are not whole: what there is, at one round, and how far the study is."""

import json

import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.results.results import Results
from mdfl_jax.results.unfinished import NotYetError
from tests.report.conftest import write_workdir
from tests.report.made_report import unfinish


def accuracies(run, name):
    """The accuracy at each round by seed, from the lines of the file."""
    found = {}
    for line in (run.workdir / "metrics.jsonl").read_text().splitlines()[:-1]:
        row = json.loads(line)
        if row["point"] == name:
            found.setdefault(row["seed"], {})[row["round"]] = row["accuracy"]
    return found


def test_results_are_at_one_round_over_the_seeds_that_have_reached_it(tmp_path):
    ends = {("static", 0): 40, ("static", 1): 40, ("static", 2): 40, ("random_movement", 0): 40}
    ends |= {("random_movement", 1): 30, ("dam", 0): 10}
    folder = write_workdir(tmp_path / "run")
    run = Results.read(unfinish(folder, lambda row: row["round"] <= ends.get((row["point"], row["seed"]), -1))).shown()
    static, moving, late = run.outcomes  # dcm has not begun
    of, of_moving = accuracies(run, "static"), accuracies(run, "random_movement")[0][40]
    assert run.summary["round"] == 40
    assert static["final_accuracy"]["per_seed"] == [of[seed][40] for seed in (0, 1, 2)]
    assert moving["final_accuracy"]["per_seed"] == [of_moving]
    assert moving["difference_to_baseline"]["mean"] == pytest.approx(of_moving - of[0][40])
    assert late["final_accuracy"]["mean"] is late["difference_to_baseline"] is None
    assert run.curves["dam"].rounds.tolist() == [0, 10]  # but it has a curve
    first = next(r for r in range(0, 41, 10) if np.mean([of[seed][r] for seed in (0, 1, 2)]) >= 0.6)
    assert static["rounds_to_target"] == first
    assert repr(run).endswith("until round 40>")
    said = " ".join(run.remarks)
    assert "of its 12 runs 4 have ended and 2 are under way" in said
    assert "These points have not reached it yet: dam; dcm." in said


def test_a_study_that_has_only_begun_and_a_broken_line_are_told(tmp_path):
    folder = unfinish(write_workdir(tmp_path / "begun"), lambda row: False)
    with pytest.raises(NotYetError, match="it has no evaluation yet"):
        Results.read(folder).shown()
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(NotYetError):
        Results.read(folder).shown()
    folder = unfinish(write_workdir(tmp_path / "broken"))
    (folder / "metrics.jsonl").write_text("{broken\n" + (folder / "metrics.jsonl").read_text())
    with pytest.raises(UserError, match=r"metrics.jsonl:1: not valid JSON"):
        Results.read(folder).shown()
