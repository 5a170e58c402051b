"""Intervals and differences over seeds against scipy.stats; how often one of several intervals fails."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import t as student

from mdfl_jax.core.outcomes import interval_of_known as interval
from mdfl_jax.core.outcomes import with_seeds
from mdfl_jax.results.statistics import LEAST_SEEDS, band, difference, simultaneous, welch

numbers = st.lists(st.integers(0, 1000).map(lambda value: value / 1000), min_size=2, max_size=12)


@given(numbers)
def test_interval_is_that_of_scipy(values):
    found, n = interval(values), len(values)
    assert found["mean"] == pytest.approx(np.mean(values))
    assert found["std"] == pytest.approx(np.std(values, ddof=1))
    assert found["ci95"] == pytest.approx(stats.t.ppf(0.975, n - 1) * stats.sem(values))


@pytest.mark.filterwarnings("ignore:Precision loss")  # scipy, where all values are equal
@given(numbers, numbers)
def test_welch_is_that_of_scipy(a, b):
    found = welch(a, b)
    assert found["mean"] == pytest.approx(np.mean(a) - np.mean(b))
    if np.std(a) + np.std(b) == 0:
        assert found["ci95"] == 0
        return
    low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert found["ci95"] == pytest.approx((high - low) / 2, rel=1e-6)


@given(st.lists(st.tuples(*[st.integers(0, 1000)] * 3), min_size=2, max_size=9))
def test_the_band_of_a_curve_is_the_interval_of_each_of_its_values(rows):
    values = np.array(rows) / 1000
    means, halves = band(values)
    columns = [interval(column) for column in values.T]
    assert means == pytest.approx([of["mean"] for of in columns])
    assert halves == pytest.approx([of["ci95"] for of in columns])
    means, halves = band(values[:1])
    assert (means.tolist(), halves) == (values[0].tolist(), None)


def test_what_is_not_known_is_none():
    assert with_seeds([]) == {"mean": None, "std": None, "ci95": None, "per_seed": []}
    assert interval([0.5, np.nan, 0.7]) == interval([0.5, 0.7]) | {"seeds": 2}  # a diverged run has no result
    assert interval([np.nan, np.nan]) == {"mean": None, "std": None, "ci95": None}
    assert welch([1.0], [0.5, 0.7]) == {"mean": pytest.approx(0.4), "ci95": None}
    assert welch([], [1.0]) == {"mean": None, "ci95": None}


def test_differences_are_paired_by_the_common_seeds_only():
    a, b = {0: 0.9, 1: 0.8, 2: 0.7, 9: 0.1}, {2: 0.5, 0: 0.6, 1: 0.6}
    pairs = [0.9 - 0.6, 0.8 - 0.6, 0.7 - 0.5]
    assert difference(a, b) == {
        "mean": pytest.approx(np.mean(pairs)),
        "ci95": pytest.approx(stats.t.ppf(0.975, 2) * stats.sem(pairs)),
        "paired": True,
        "seeds": 3,
    }
    apart = difference(a, b, paired=False)
    assert apart == {**welch([*a.values()], [*b.values()]), "paired": False, "seeds": None}
    assert difference({0: 1.0}, {1: 0.5})["paired"] is False  # no seed in common


def drawn(seeds, count, shared=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return np.sqrt(shared) * rng.normal(size=(seeds, 1)) + np.sqrt(1 - shared) * rng.normal(size=(seeds, count))


@pytest.mark.parametrize("seeds", [3, 20])
def test_of_one_difference_it_is_students_interval(seeds):
    values = drawn(seeds, 1) + 2
    found, expected = simultaneous(values), interval(values[:, 0])
    assert found.factor == pytest.approx(student.ppf(0.975, seeds - 1), rel=0.06)
    np.testing.assert_allclose([found.mean[0], found.alone[0]], [expected["mean"], expected["ci95"]])


def test_differences_that_are_all_alike_cost_no_more_than_one():
    one = drawn(20, 1)
    assert simultaneous(np.repeat(one, 100, axis=1) + np.arange(100)).factor == pytest.approx(
        simultaneous(np.repeat(one, 2, axis=1)).factor
    )
    assert simultaneous(np.repeat(one, 100, axis=1)).factor < 2.3
    assert simultaneous(drawn(20, 100)).factor > 3.5


def test_with_few_seeds_the_factor_is_bonferronis():
    seeds = LEAST_SEEDS - 1
    assert simultaneous(drawn(seeds, 25)).factor == pytest.approx(student.ppf(1 - 0.05 / 50, seeds - 1))


@pytest.mark.parametrize(("seeds", "count", "shared"), [(12, 20, 0.5), (5, 20, 0.5)])
def test_all_intervals_hold_together_in_95_of_100_studies(seeds, count, shared):
    studies = 200
    failed = 0
    for study in range(studies):
        found = simultaneous(drawn(seeds, count, shared, study), draws=999)
        failed += np.any(np.abs(found.mean) > found.half)
    assert failed / studies < 0.05 + 3 * np.sqrt(0.05 * 0.95 / studies)
    if seeds >= LEAST_SEEDS:
        assert failed > 0  # and they are not so wide that they always hold


def test_a_missing_seed_widens_its_own_interval_and_hardly_the_others():
    values = drawn(20, 30)
    whole = simultaneous(values)
    values[3, 4], values[:, 7], values[1:, 8] = np.nan, np.nan, np.nan
    found = simultaneous(values)
    assert np.isnan([found.mean[7], found.half[7], found.mean[8], found.half[8]]).all()
    rest = [k for k in range(30) if k not in (4, 7, 8)]
    np.testing.assert_allclose(found.half[rest], whole.half[rest], rtol=0.12)
    error = np.nanstd(values[:, 4], ddof=1) / np.sqrt(19)
    assert found.half[4] == pytest.approx(student.ppf(1 - 0.0125, 18) * error)


def test_equal_values_have_an_interval_of_no_width():
    found = simultaneous(np.ones((20, 3)))
    np.testing.assert_array_equal(found.half, 0)
    np.testing.assert_array_equal(found.mean, 1)
