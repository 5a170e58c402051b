"""Intervals and differences over seeds against scipy.stats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mdfl_jax.report.statistics import band, difference, interval, welch, with_seeds

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
