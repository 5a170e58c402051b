"""The statistics of `benchmarks.papers.prediction`, without training."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from benchmarks.papers import prediction
from benchmarks.papers.prediction import Known

NUMBERS = st.integers(-3, 3).map(float) | st.just(np.inf)


def known(setting, rule, accuracy, value):
    return Known(setting.split()[0], setting, rule, accuracy, {"degree": value, "p": 0.0, "drift": -value})


POINTS = [
    known("M 1", "dcm", 0.9, 3.0),
    known("M 1", "dam", 0.8, 2.0),
    known("M 1", "random_movement", 0.7, 2.0),
    known("Rc 1", "dcm", 0.5, 1.0),
    known("Rc 1", "dam", 0.6, 0.0),
]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=3, max_size=12))
def test_rho_is_spearmans(pairs):
    x, y = np.array(pairs).T
    ours = prediction.rho(x, y)
    if min(len(set(x)), len(set(y))) < 2:
        assert np.isnan(ours)
    else:
        ranks = [np.searchsorted(np.unique(values), values) for values in (x, y)]  # scipy refuses infinite values
        assert ours == pytest.approx(spearmanr(*ranks).statistic)


def test_pairs_of_rules_are_compared_at_one_setting_only():
    """At M 1: dcm before dam and random, a tie counts half; at Rc 1 the order is wrong."""
    assert prediction.ordered(POINTS, "degree", 1) == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    assert prediction.ordered(POINTS, "drift", -1) == prediction.ordered(POINTS, "degree", 1)
    assert np.isnan(prediction.ordered(POINTS[:1], "degree", 1))
