"""Intervals and differences over seeds against scipy.stats; how often one of several intervals fails."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mdfl_jax.core.outcomes import interval_of_known as interval
from mdfl_jax.results.statistics import LEAST_SEEDS, difference, median_interval, simultaneous, welch

numbers = st.lists(st.integers(0, 1000).map(lambda value: value / 1000), min_size=2, max_size=12)


@given(numbers)
def test_interval_is_that_of_scipy(values):
    found, n = interval(values), len(values)
    assert found["mean"] == pytest.approx(np.mean(values))
    assert found["std"] == pytest.approx(np.std(values, ddof=1))
    if n == 2:
        assert found["ci95"] is None
        return
    assert found["ci95"] == pytest.approx(stats.t.ppf(0.975, n - 1) * stats.sem(values))


@pytest.mark.filterwarnings("ignore:Precision loss")  # scipy, where all values are equal
@given(numbers, numbers)
def test_welch_is_that_of_scipy(a, b):
    found = welch(a, b)
    assert found["mean"] == pytest.approx(np.mean(a) - np.mean(b))
    if min(len(a), len(b)) == 2:
        assert found["ci95"] is None
        return
    if np.std(a) + np.std(b) == 0:
        assert found["ci95"] == 0
        return
    low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert found["ci95"] == pytest.approx((high - low) / 2, rel=1e-6)


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


@pytest.mark.parametrize("seeds", [12, 20, 35])
def test_interval_of_a_median_is_that_of_scipys_sign_test(seeds):
    values = np.random.default_rng(seeds).normal(size=seeds)
    expected = stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    median, half = median_interval(values)
    assert median == np.median(values)
    assert half == max(median - expected.low, expected.high - median)


def test_differences_are_medians_where_a_tenth_of_the_seeds_collapses():
    studies, failed, medians = 200, 0, 0
    median = stats.norm.ppf(0.4 / 0.9)  # of the population, whose mean is -5
    for study in range(studies):
        values = drawn(20, 4, seed=study)
        gone = np.random.default_rng(1000 + study).random(20) < 0.1
        values[:, :2] -= 50 * gone[:, None]
        found = simultaneous(values, draws=999)
        assert found.is_median.tolist() == [0 < gone.sum() <= 4] * 2 + [False] * 2
        told = found.is_median | (np.arange(4) >= 2)  # a sample without a collapse cannot show it
        failed += np.any(np.abs(found.mean - np.where(found.is_median, median, 0))[told] > found.half[told])
        medians += found.is_median[0]
    assert medians > 0.7 * studies
    assert failed / studies < 0.05 + 3 * np.sqrt(0.05 * 0.95 / studies)


def test_so_many_medians_that_no_intervals_hold_together_stay_means():
    values = drawn(10, 40)
    values[:2] -= 50
    found = simultaneous(values, draws=999)
    assert not found.is_median.any()
    assert np.isfinite(found.half).all()
    assert simultaneous(values[:, :5], draws=999).is_median.all()
