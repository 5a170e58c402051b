"""The power of paired differences against simulation and scipy.stats, and of which differences summary.json has it."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_study import made
from scipy import stats

from mdfl_jax.core.outcomes import with_seeds
from mdfl_jax.results.results import Results
from mdfl_jax.results.statistics import power_of, seeds_for, smallest_difference
from mdfl_jax.results.summary import _power


@pytest.mark.parametrize("seeds", [3, 4, 6, 13, 100, 5000])
def test_the_power_is_that_of_the_noncentral_t_distribution(seeds):
    threshold, shift = stats.t.ppf(0.975, seeds - 1), smallest_difference(1.0, seeds) * np.sqrt(seeds)
    power = stats.nct.sf(threshold, seeds - 1, shift) + stats.nct.cdf(-threshold, seeds - 1, shift)
    assert power == pytest.approx(0.8, abs=2e-6)  # with the differences of the wrong sign, which ours leaves out


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-4, 1.0), st.floats(1e-3, 1.0))
def test_seeds_are_enough_and_one_less_is_not(std, difference):
    seeds = seeds_for(std, difference)
    assert smallest_difference(std, seeds) <= difference
    assert seeds == 2 or smallest_difference(std, seeds - 1) > difference


def test_each_point_has_the_power_of_its_differences_if_it_has_two_different_seeds():
    differences = {"sure": [0.01, 0.02, 0.015, 0.012], "unsure": [0.01, 0.06, -0.03]}
    found = power_of(differences)
    assert {key: found[key] for key in ("power", "difference")} == {"power": 0.8, "difference": 0.02}
    for (name, values), entry in zip(differences.items(), found["points"], strict=True):
        std = np.std(values, ddof=1)
        least = pytest.approx(smallest_difference(std, len(values)))
        expected = {"id": name, "seeds": len(values), "std": pytest.approx(std), "smallest_difference": least}
        assert entry == expected | {"seeds_for_difference": seeds_for(std, 0.02)}
    assert power_of({"one seed": [0.1], "equal": [0.1, 0.1], "diverged": [np.nan, 0.1, np.inf]}) is None


SWEEP = {"sweep": "network.mobility=static,random_movement,dcm; network.radius=1,2", "seeds": 5}


def point(name, values):
    """A sweep point; a seed whose run has diverged has no value (NaN)."""
    return {"id": name, "final_accuracy": with_seeds(values)}


def test_the_differences_are_those_to_the_baseline_of_each_point(tmp_path):
    made(tmp_path / "run", baseline="network.mobility=static", **SWEEP)
    found = Results.open(tmp_path / "run").summary
    per_seed = {p["id"]: np.array(p["final_accuracy"]["per_seed"]) for p in found["points"]}
    expected = {
        f"{rule}, radius={r}": per_seed[f"{rule}, radius={r}"] - per_seed[f"static, radius={r}"]
        for rule in ("random_movement", "dcm")
        for r in (1, 2)
    }
    assert found["power"] == power_of(expected)
    assert [entry["id"] for entry in found["power"]["points"]] == list(expected)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["power"] == found["power"]


def test_the_most_accurate_point_common_seeds_and_finite_results_are_compared():
    lost = float("nan")
    entries = [point("a", [0.5, 0.625]), point("best", [0.75, 0.75]), point("c", [0.125, 0.5])]
    found = _power(entries, [None] * 3, [[0, 1]] * 3, None)  # without a baseline
    assert found == power_of({"a": [-0.25, -0.125], "c": [-0.625, -0.25]})
    entries = [point("base", [0.5, 0.6, 0.9]), point("b", [0.8, 0.2])]
    assert _power(entries, [0, 0], [[0, 1, 2], [2, 0]], None) == power_of({"b": [0.8 - 0.9, 0.2 - 0.5]})
    entries = [point("base", [0.5, 0.6, 0.4]), point("b", [0.8, lost, 0.2]), point("c", [lost] * 3)]
    assert _power(entries, [0, 0, 0], [[0, 1, 2]] * 3, None) == power_of({"b": [0.8 - 0.5, 0.2 - 0.4]})
    assert _power(entries, [2, 2, 2], [[0, 1, 2]] * 3, None) is None  # a baseline that diverged under all seeds
    assert _power(entries, [0, 0, 0], [[0, 1, 2]] * 3, [{"id": "b"}]) is None  # a baseline that was not chosen
