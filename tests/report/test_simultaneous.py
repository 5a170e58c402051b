"""Intervals that hold together: their width in known cases, and how often one of them fails."""

import numpy as np
import pytest
from scipy.stats import t as student

from mdfl_jax.report.statistics import LEAST_SEEDS, interval, simultaneous


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


@pytest.mark.parametrize(("seeds", "count", "shared"), [(20, 60, 0.0), (12, 20, 0.5), (5, 20, 0.5), (40, 300, 0.3)])
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
