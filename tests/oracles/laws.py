"""Whether what was drawn follows a law."""

import numpy as np
from scipy import stats


def assert_law(drawn, law, smallest=1e-4):
    """Numbers that were drawn, against the probability of each; those too rare for the test are taken together."""
    counts, likely = np.bincount(drawn, minlength=len(law)), law * len(drawn) >= 5
    assert counts[law < 1e-9].sum() == 0
    observed = np.append(counts[likely], counts[~likely].sum())
    expected = np.append(law[likely], max(law[~likely].sum(), 0)) * len(drawn)
    keep = expected > 1e-6
    if keep.sum() > 1:
        expected = expected[keep] * observed[keep].sum() / expected[keep].sum()
        assert stats.chisquare(observed[keep], expected).pvalue > smallest
