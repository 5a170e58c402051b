"""The entry `power` of summary.json: which differences it is of, where it is printed, and when there is none."""

import json

import numpy as np
from made_study import made

from mdfl_jax.core.outcomes import with_seeds
from mdfl_jax.results.results import StudyResults
from mdfl_jax.results.statistics import power_of
from mdfl_jax.results.summary import _power

SWEEP = {"sweep": "network.mobility=static,random_movement,dcm; network.radius=1,2", "seeds": 5}


def point(name, values):
    """A sweep point; a seed whose run has diverged has no value (NaN)."""
    return {"id": name, "final_accuracy": with_seeds(values)}


def test_the_differences_are_those_to_the_baseline_of_each_point(tmp_path):
    made(tmp_path / "run", baseline="network.mobility=static", **SWEEP)
    found = StudyResults.open(tmp_path / "run").summary
    per_seed = {p["id"]: np.array(p["final_accuracy"]["per_seed"]) for p in found["points"]}
    expected = {
        f"{rule}, radius={r}": per_seed[f"{rule}, radius={r}"] - per_seed[f"static, radius={r}"]
        for rule in ("random_movement", "dcm")
        for r in (1, 2)
    }
    assert found["power"] == power_of(expected)
    assert [entry["id"] for entry in found["power"]["points"]] == list(expected)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["power"] == found["power"]


def test_without_a_baseline_all_are_compared_with_the_most_accurate_point():
    entries = [point("a", [0.5, 0.625]), point("best", [0.75, 0.75]), point("c", [0.125, 0.5])]
    found = _power(entries, [None] * 3, [[0, 1]] * 3, None)
    assert found == power_of({"a": [-0.25, -0.125], "c": [-0.625, -0.25]})


def test_only_common_seeds_are_paired():
    entries = [point("base", [0.5, 0.6, 0.9]), point("b", [0.8, 0.2])]
    found = _power(entries, [0, 0], [[0, 1, 2], [2, 0]], None)
    assert found == power_of({"b": [0.8 - 0.9, 0.2 - 0.5]})


def test_runs_that_diverged_and_points_that_were_not_chosen_are_left_out():
    lost = float("nan")
    entries = [point("base", [0.5, 0.6, 0.4]), point("b", [0.8, lost, 0.2]), point("c", [lost] * 3)]
    found = _power(entries, [0, 0, 0], [[0, 1, 2]] * 3, None)
    assert found == power_of({"b": [0.8 - 0.5, 0.2 - 0.4]})
    assert found["points"][0]["seeds"] == 2
    assert _power(entries, [2, 2, 2], [[0, 1, 2]] * 3, None) is None  # a baseline that diverged under all seeds
    assert _power(entries, [0, 0, 0], [[0, 1, 2]] * 3, [{"id": "b"}]) is None  # a baseline that was not chosen
    chosen = [{"id": "base"}, {"id": None}]
    assert _power(entries, [None] * 3, [[0, 1]] * 3, chosen) is None
    assert _power([point("a", [np.nan, 0.5]), point("b", [np.nan, 0.2])], [None] * 2, [[0, 1]] * 2, None) is None
