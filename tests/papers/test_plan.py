"""How many seeds decide a claim, and which decided claims may be chance."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from benchmarks.papers import plan
from benchmarks.papers.items import Claim
from mdfl_jax.core.outcomes import interval


def claim(text, values):
    return Claim(text, interval(values), sign=1).as_json()


def test_as_many_seeds_as_are_planned_find_the_measured_difference_in_four_of_five_studies(monkeypatch):
    told = claim("unsure", np.random.default_rng(3).normal(0.4, 1.0, 6))
    studies = {"s": {"seeds": 6, "run_seconds": 600}}
    monkeypatch.setattr(plan, "ITEMS", ["madfl:a"])
    monkeypatch.setattr(plan.records, "kept", lambda name: {"studies": studies, "claims": [told], "device": "cpu cpu"})
    (need,), ours = plan.needs(), told["ours"]
    drawn = np.random.default_rng(0).normal(abs(ours["mean"]), ours["std"], (4000, need.seeds))
    assert (ttest_1samp(drawn, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.03)


def test_the_correction_is_that_of_benjamini_and_hochberg(monkeypatch):
    """Against their rule in a loop: the largest k of which the k-th smallest p is at most 0.05 k / m."""
    rng = np.random.default_rng(1)
    values = {f"claim {i}": rng.normal(0.9 * (i % 3), 1.0, 8) for i in range(40)}
    of = {"studies": {}, "claims": [claim(text, each) for text, each in values.items()]}
    monkeypatch.setattr(plan, "results", lambda: iter([("madfl:a", of)]))
    p_values = {text: ttest_1samp(each, 0).pvalue for text, each in values.items()}
    order = sorted(p_values.values())
    largest = max((p for k, p in enumerate(order, 1) if p <= 0.05 * k / 40), default=-1.0)
    count, decided, stay = plan.corrected()
    assert count == 40
    assert decided == {("madfl:a", text) for text, p in p_values.items() if p < 0.05}
    assert stay == {("madfl:a", text) for text, p in p_values.items() if p <= largest}
    assert len(stay) < len(decided)  # or the test would not tell them apart
    assert f"{len(decided)} do" in plan.chance()
