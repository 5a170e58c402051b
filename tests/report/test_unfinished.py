"""Studies that are not whole: what there is, at one round, how far the study is, and which runs it lacks."""

import json

import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.compare import read_studies
from mdfl_jax.report.page import render
from mdfl_jax.report.read import NotYetError, describe_missing, read_workdir
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


def test_all_lines_give_the_numbers_of_the_finished_study(tmp_path):
    folder = write_workdir(tmp_path / "run", seeds=4)
    finished = read_workdir(folder)
    run = read_workdir(unfinish(folder))
    for was, point in zip(finished.points, run.points):
        for key in ("final_accuracy", "best_accuracy"):
            per_seed = np.array(was[key]["per_seed"])
            assert point[key]["per_seed"] == pytest.approx(per_seed, abs=1e-12)
            assert point[key]["mean"] == pytest.approx(was[key]["mean"], abs=1e-12)
        if was["difference_to_baseline"]:
            gap = np.array(was["final_accuracy"]["per_seed"]) - finished.points[0]["final_accuracy"]["per_seed"]
            assert point["difference_to_baseline"]["mean"] == pytest.approx(gap.mean(), abs=1e-12)
        assert point["baseline"] == "static"
        assert np.array_equal(run.curves[point["id"]].accuracy, finished.curves[point["id"]].accuracy)
    assert run.remarks[0].startswith("This study is unfinished: of its 16 runs 16 have ended and 0 are under way")


def test_results_are_at_one_round_over_the_seeds_that_have_reached_it(tmp_path):
    ends = {("static", 0): 40, ("static", 1): 40, ("static", 2): 40, ("random_movement", 0): 40}
    ends |= {("random_movement", 1): 30, ("dam", 0): 10}
    folder = write_workdir(tmp_path / "run")
    run = read_workdir(unfinish(folder, lambda row: row["round"] <= ends.get((row["point"], row["seed"]), -1)))
    static, moving, late = run.points  # dcm has not begun
    of = accuracies(run, "static")
    assert run.summary["round"] == 40
    assert static["final_accuracy"]["per_seed"] == [of[seed][40] for seed in (0, 1, 2)]
    assert moving["final_accuracy"]["per_seed"] == [accuracies(run, "random_movement")[0][40]]
    assert moving["difference_to_baseline"]["mean"] == pytest.approx(
        accuracies(run, "random_movement")[0][40] - of[0][40]
    )
    assert late["final_accuracy"]["mean"] is None
    assert late["difference_to_baseline"] is None
    assert run.curves["dam"].rounds.tolist() == [0, 10]  # but it has a curve
    assert run.seeds(1) == (0,)
    first = next(r for r in range(0, 41, 10) if np.mean([of[seed][r] for seed in (0, 1, 2)]) >= 0.6)
    assert static["rounds_to_target"] == first
    said = " ".join(run.remarks)
    assert "of its 12 runs 4 have ended and 2 are under way" in said
    assert "These points have not reached it yet: dam; dcm." in said
    assert "In these points fewer than 3 seeds have reached it: random_movement (1)." in said


def test_a_study_that_has_only_begun_is_told_in_one_line(tmp_path):
    folder = unfinish(write_workdir(tmp_path / "run"), lambda row: False)
    with pytest.raises(NotYetError, match="it has no evaluation yet"):
        read_workdir(folder)
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(NotYetError):
        read_workdir(folder)


def test_a_broken_line_in_the_middle_of_a_running_study_is_a_mistake(tmp_path):
    folder = unfinish(write_workdir(tmp_path / "run"))
    text = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text("{broken\n" + text)
    with pytest.raises(UserError, match=r"metrics.jsonl:1: not valid JSON"):
        read_workdir(folder)


def test_the_baseline_is_the_one_that_summary_json_names(tmp_path):
    values = [{"network.torus": value} for value in (False, True)]
    folder = unfinish(write_workdir(tmp_path / "run", values))
    manifest = json.loads((folder / "config.json").read_text())
    manifest["config"]["baseline"] = "network.torus=True"  # as Python writes it
    (folder / "config.json").write_text(json.dumps(manifest))
    run = read_workdir(folder)
    assert [point["baseline"] for point in run.points] == ["True", "True"]
    assert run.summary["baseline"] == "True"


WHOLE = {"points": [{"id": name} for name in ("static", "dam", "dcm")], "seeds": [0, 1, 2]}


@pytest.fixture
def shard(tmp_path):
    """The first of three shards: static under seeds 0 and 1, and dam under seed 1."""
    folder = write_workdir(tmp_path / "shard", [{"network.mobility": name} for name in ("static", "dam")], seeds=2)
    manifest = json.loads((folder / "config.json").read_text()) | {"whole": WHOLE, "shard": "1/3"}
    (folder / "config.json").write_text(json.dumps(manifest))
    return folder


def test_a_shard_says_what_it_lacks(shard, tmp_path):
    said = "This is shard 1/3 of a study. Of its 9 runs, 5 are missing: static (seed 2); dam (seed 2); dcm."
    run = read_workdir(shard)
    assert run.remarks == (said,)
    assert said in render(run)
    other = write_workdir(tmp_path / "other", seeds=2)
    assert f"shard: {said}" in read_studies([shard, other], tmp_path).remarks
    assert read_workdir(other).remarks == ()
    unfinished = read_workdir(unfinish(shard, lambda row: row["round"] <= 20)).remarks
    assert unfinished[0].startswith("This study is unfinished")
    assert unfinished[-1] == said


def test_seeds_are_those_of_each_point_and_many_points_are_counted():
    points = [{"id": "static", "seeds": [0]}, {"id": "dam"}, {"id": "dcm"}]
    manifest = {"points": points, "seeds": [0, 1, 2], "whole": WHOLE}
    (said,) = describe_missing(manifest)
    assert said == "This is a part of a study. Of its 9 runs, 2 are missing: static (seeds 1, 2)."
    assert describe_missing(manifest | {"points": [*points[1:], {"id": "static"}]}) == ()
    many = {"points": [{"id": f"p{i}"} for i in range(9)], "seeds": [0]}
    (said,) = describe_missing({"points": [], "seeds": [0], "whole": many})
    assert said.endswith("Of its 9 runs, 9 are missing: p0; p1; p2; p3; p4; p5 and 3 more.")
