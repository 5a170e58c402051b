"""The verdict on a claim, what the page says of it, how many seeds decide it, and which claims may be chance."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from benchmarks.papers import catalogue, items, page, plan, records
from benchmarks.papers.components import deviation
from benchmarks.papers.items import AGREES, DIFFERS, OWN, SIGN, UNDECIDED, UNKNOWN, Claim
from mdfl_jax.core.outcomes import interval

catalogue.load()


def of(mean, ci95):
    return {"mean": mean, "ci95": ci95}


def test_the_verdict():
    for ours, paper, sign, verdict in (
        (of(7, 2), 8, 0, AGREES),
        (of(3, 2), 8, 0, SIGN),
        (of(12, 2), 8, 0, SIGN),
        (of(1, 2), 8, 0, UNDECIDED),
        (of(7, 5), 8, 0, UNDECIDED),  # on the side of the paper's number, and too wide to tell its size
        (of(-3, 2), 8, 0, DIFFERS),
        (of(-7, 2), -8, 0, AGREES),
        (of(7, 2), None, 1, AGREES),
        (of(7, 2), None, -1, DIFFERS),
        (of(0, 0), None, 1, UNDECIDED),
        (of(5, None), 5, 0, AGREES),  # one seed: no interval
        (of(None, None), 5, 0, UNKNOWN),
        (True, None, 0, AGREES),
        (False, None, 0, DIFFERS),
        (None, None, 0, UNKNOWN),
    ):
        assert Claim("a claim", ours, paper, sign=sign).verdict == verdict, (ours, paper, sign)
    for mean, half, verdict in ((153, 20, DIFFERS), (120, 20, AGREES), (153, 136, UNDECIDED), (90, 20, DIFFERS)):
        assert Claim("slots to 70 %", of(mean, half), 115, level=True).verdict == verdict, (mean, half)
    assert Claim("rounds to our target", of(7, 2), sign=-1, own=True).verdict == OWN


def test_a_comparison_of_our_own_stands_apart_and_is_not_counted():
    claims, own = page.pages()["papers.md"].split("Comparisons of our own, which the paper does not claim:")
    assert "than dmgt_svrg" in own
    assert "than dmgt_svrg" not in claims.split("## PaME")[1]
    assert f" {items.OWN}" not in claims


def test_an_item_that_differs_says_why():
    for item in items.ITEMS.values():
        differs = any(claim["verdict"] == DIFFERS for claim in (records.kept(item.name) or {"claims": []})["claims"])
        assert item.why or not differs, item.name


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


def test_an_interval_holds_the_true_deviation_in_19_of_20_studies():
    rng, inside, studies = np.random.default_rng(0), 0, 4000
    means = np.array([[10.0], [-3.0], [0.0]])
    for _ in range(studies):
        low, high = deviation(list(rng.normal(means, 2.5, (3, 4)))).interval
        inside += low < 2.5 < high
    assert inside / studies == pytest.approx(0.95, abs=0.011)  # 3.2 standard errors
