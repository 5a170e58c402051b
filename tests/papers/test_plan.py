"""How many seeds decide a claim, what they cost, and which decided claims may be chance."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from benchmarks.papers import plan
from benchmarks.papers.items import SIGN, Claim
from mdfl_jax.core.outcomes import interval


def claim(text, values, paper=None, unit="points"):
    ours = interval(values)
    return Claim(text, ours, paper, sign=1, unit=unit, level=unit == "slots").as_json()


@pytest.fixture
def kept(monkeypatch):
    """Three items, of which two share a study, with claims whose differences over six seeds are drawn."""
    rng = np.random.default_rng(3)
    draw = lambda mean: rng.normal(mean, 1.0, 6)  # noqa: E731
    shared, own = {"seeds": 6, "run_seconds": 600}, {"seeds": 6, "run_seconds": 36_000}
    found = {
        "madfl:a": {"studies": {"s": shared}, "claims": [claim("sure", draw(9)), claim("unsure", draw(0.4))]},
        "madfl:b": {"studies": {"s": shared, "t": own}, "claims": [claim("open", draw(0.3)), claim("none", [2.0] * 6)]},
        "pame:c": {"studies": {"u": own}, "claims": [claim("level", [40.0, 160, 100, 30, 170, 100], 60, "slots")]},
    }
    for name, item in found.items():
        item["device"] = "gpu NVIDIA H100 80GB HBM3" if name == "pame:c" else "cpu cpu"
    monkeypatch.setattr(plan, "ITEMS", found)
    monkeypatch.setattr(plan.records, "kept", found.get)
    return found


def test_the_plan_decides_all_claims_and_pays_for_each_seed_once(kept):
    wanted = {need.text: need for need in plan.needs()}
    assert {*wanted} == {"unsure", "open", "level"}
    assert all(need.seeds > need.have == 6 for need in wanted.values())
    steps = plan.steps(list(wanted.values()))
    assert [len(step.claims) for step in steps] == [1, 1, 1]
    most = {
        "s": max(wanted["unsure"].seeds, wanted["open"].seeds),
        "t": wanted["open"].seeds,
        "u": wanted["level"].seeds,
    }
    hours = sum((most[name] - 6) * {"s": 100, "t": 6000, "u": 6000}[name] for name in most) / 3600
    assert sum(step.hours for step in steps) == pytest.approx(hours)
    last = next(step for step in steps if step.item == "madfl:b")
    assert plan.sharing(last) == ["madfl:a", "madfl:b"]
    assert plan.seeds_with(last) == {"s": last.seeds, "t": last.seeds, "u": 6}


def test_as_many_seeds_as_are_planned_find_the_measured_difference_in_four_of_five_studies(kept):
    need = next(need for need in plan.needs() if need.text == "unsure")
    ours = kept["madfl:a"]["claims"][1]["ours"]
    drawn = np.random.default_rng(0).normal(abs(ours["mean"]), ours["std"], (4000, need.seeds))
    assert (ttest_1samp(drawn, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.03)


def test_another_size_is_as_likely_chance_as_its_distance_from_the_papers(monkeypatch):
    values = np.random.default_rng(2).normal(5.0, 1.0, 8)
    paper = float(values.mean()) + 1.5
    of = {"studies": {}, "claims": [claim("smaller", values, paper)]}
    monkeypatch.setattr(plan, "results", lambda: iter([("madfl:a", of)]))
    ((_, told, p),) = plan.numbers()
    assert told["verdict"] == SIGN
    assert p == pytest.approx(ttest_1samp(values, paper).pvalue)


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
