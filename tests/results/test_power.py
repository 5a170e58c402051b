"""The power of paired differences against simulation and scipy.stats, and which difference a study is told by."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mdfl_jax.results.statistics import power_in_words, power_of, seeds_for, smallest_difference


@pytest.mark.parametrize("seeds", [2, 3, 6, 20])
def test_that_many_seeds_find_the_smallest_difference_in_four_of_five_studies(seeds):
    """Oracle: 40,000 studies whose true difference is the smallest one, each with scipy's t-test of its seeds."""
    std, rng = 3.0, np.random.default_rng(seeds)
    drawn = rng.normal(smallest_difference(std, seeds), std, (40_000, seeds))
    found = stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.007)  # 3.5 standard errors


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


def test_more_seeds_tell_smaller_differences_apart():
    found = [smallest_difference(1.0, seeds) for seeds in range(2, 60)]
    assert (np.diff(found) < 0).all()
    assert smallest_difference(3.0, 8) == pytest.approx(3 * smallest_difference(1.0, 8))


def test_each_point_has_the_power_of_its_differences():
    differences = {"sure": [0.01, 0.02, 0.015, 0.012], "unsure": [0.01, 0.06, -0.03]}
    found = power_of(differences)
    assert {key: found[key] for key in ("power", "difference")} == {"power": 0.8, "difference": 0.02}
    for (name, values), entry in zip(differences.items(), found["points"], strict=True):
        std = np.std(values, ddof=1)
        least = pytest.approx(smallest_difference(std, len(values)))
        expected = {"id": name, "seeds": len(values), "std": pytest.approx(std), "smallest_difference": least}
        assert entry == expected | {"seeds_for_difference": seeds_for(std, 0.02)}


def test_nothing_is_told_without_two_different_seeds():
    assert power_of({}) is None
    assert power_of({"one seed": [0.1], "equal": [0.1, 0.1], "diverged": [np.nan, 0.1, np.inf]}) is None
    (entry,) = power_of({"one": [0.1], "diverged": [np.nan, 0.1, 0.2]})["points"]
    assert (entry["id"], entry["seeds"]) == ("diverged", 2)


def entry(name, least, needed, seeds=6):
    return {"id": name, "seeds": seeds, "smallest_difference": least, "seeds_for_difference": needed}


def test_the_words_go_from_the_most_certain_difference_to_the_least_certain():
    three = [entry("static", 0.138, 183), entry("dam", 0.0204, 7), entry("dcm", 0.03, 9)]
    known = {"power": 0.8, "difference": 0.02}
    assert power_in_words(known | {"points": three}) == (
        "6 seeds find true differences of at least 2.0 (dam) to 13.8 (static) percentage points "
        "(80 % power, paired by seed); 7 to 183 seeds find 2 points"
    )
    assert power_in_words(known | {"points": three[1:2]}) == (
        "6 seeds find true differences of at least 2.0 percentage points (80 % power, paired by seed); "
        "7 seeds find 2 points"
    )
    some = [entry("a", 0.02, 9, seeds=10), entry("b", 0.03, 9, seeds=4), entry("c", 0.025, 14, seeds=9)]
    assert power_in_words(known | {"points": some}).startswith(
        "4 to 10 seeds find true differences of at least 2.0 (a) to 3.0 (b) "
    )
    assert power_in_words(known | {"points": some}).endswith(
        "9 to 14 seeds find 2 points"
    )  # the one between needs the most
