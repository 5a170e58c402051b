"""The components of the variance over seeds: the interval of a deviation against simulation."""

import numpy as np
import pytest

from benchmarks.papers.components import deviation


def test_an_interval_holds_the_true_deviation_in_19_of_20_studies():
    rng, inside, studies = np.random.default_rng(0), 0, 4000
    means = np.array([[10.0], [-3.0], [0.0]])
    for _ in range(studies):
        low, high = deviation(list(rng.normal(means, 2.5, (3, 4)))).interval
        inside += low < 2.5 < high
    assert inside / studies == pytest.approx(0.95, abs=0.011)  # 3.2 standard errors
