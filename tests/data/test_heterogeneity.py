"""Numbers of heterogeneity, against values in closed form and against plain loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.data.heterogeneity import (
    coefficient_of_variation,
    effective_classes,
    gini,
    total_variation,
)

COUNTS = st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=6).filter(
    lambda rows: sum(map(sum, rows)) > 0
)


@settings(deadline=None)
@given(COUNTS)
def test_against_loops(rows):
    counts, n = np.array(rows), sum(map(sum, rows))
    overall = [sum(row[c] for row in rows) / n for c in range(3)]
    held = [[x / sum(row) for x in row] for row in rows if sum(row)]
    tv = [max(sum(p[c] - overall[c] for c in part) for part in SUBSETS) for p in held]  # the largest gap of any event
    assert total_variation(counts) == pytest.approx(sum(tv) / len(tv), abs=1e-12)
    entropy = [-sum(x * math.log(x) for x in p if x) for p in held]
    assert effective_classes(counts) == pytest.approx(sum(map(math.exp, entropy)) / len(held))
    sizes = [sum(row) for row in rows]
    pairs = sum(abs(a - b) for a in sizes for b in sizes)
    assert gini(counts.sum(axis=1)) == pytest.approx(pairs / (2 * len(sizes) * n), abs=1e-12)
    mean = n / len(sizes)
    variance = sum((size - mean) ** 2 for size in sizes) / len(sizes)
    assert coefficient_of_variation(counts.sum(axis=1)) == pytest.approx(math.sqrt(variance) / mean, abs=1e-12)


SUBSETS = [[c for c in range(3) if bits >> c & 1] for bits in range(8)]
