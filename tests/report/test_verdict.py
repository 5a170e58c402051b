"""The verdict against hand-made summaries: who is best, by how much, and whether the seeds can tell."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mdfl_jax.report.verdict import ACCURACY, find_lead, verdict


def statistic(values: list[float]) -> dict[str, Any]:
    """A mean and the half-width of its 95 % Student-t interval."""
    if len(values) == 1:
        return {"mean": values[0], "ci95": None, "per_seed": values}
    half = stats.t(len(values) - 1).ppf(0.975) * stats.sem(values)
    return {"mean": float(np.mean(values)), "ci95": float(half), "per_seed": values}


def point(name: str, values: list[float] | None, baseline: list[float] | None = None, **others: Any) -> dict[str, Any]:
    """A sweep point of a sweep of the mobility; ``baseline`` are the values of the point 'static'."""
    found = {"id": name, "overrides": {"network.mobility": name}, "difference_to_baseline": None, **others}
    found["final_accuracy"] = {"mean": None, "ci95": None, "per_seed": []} if values is None else statistic(values)
    if baseline is not None and values is not None:
        difference = statistic(list(np.subtract(values, baseline)))
        found |= {"baseline": "static", "difference_to_baseline": {k: difference[k] for k in ("mean", "ci95")}}
    return found


def told(*points: dict[str, Any], config: dict[str, Any] | None = None, **summary: Any) -> list[str]:
    return verdict({"schema": 1, "baseline": "static", "points": list(points), **summary}, config or {})


STATIC, DAM, DCM = [0.40, 0.44, 0.42], [0.50, 0.55, 0.51], [0.60, 0.65, 0.61]


def test_a_clear_winner_is_told_with_its_interval_and_its_paired_lead():
    (said,) = told(point("static", STATIC, STATIC), point("dam", DAM, STATIC), point("dcm", DCM, STATIC))
    # By hand: the mean of 60, 65 and 61 is 62, its interval 4.303 * 2.646 / sqrt(3) = 6.57; the differences are 20, 21
    # and 19, with the mean 20 and the interval 4.303 * 1 / sqrt(3) = 2.48.
    assert said == (
        "dcm is best: 62.00 ± 6.57 % final test accuracy, 20.00 ± 2.48 points above static, the baseline; these 3 seeds"
        " can tell it from each of the others (paired 95 % intervals exclude 0)."
    )


def test_seeds_that_cannot_tell_are_named_and_the_point_is_not_called_best():
    close = [0.59, 0.66, 0.605]
    (said,) = told(point("static", STATIC, STATIC), point("dam", close, STATIC), point("dcm", DCM, STATIC))
    assert said.startswith("dcm has the highest mean: 62.00 ± 6.57 %")
    assert said.endswith("these 3 seeds cannot tell it from dam (paired 95 % interval includes 0).")


def test_the_best_may_be_the_baseline_and_is_then_compared_with_the_runner_up():
    (said,) = told(point("static", DCM, DCM), point("dam", DAM, DCM))
    assert said.startswith(
        "static, the baseline, is best: 62.00 ± 6.57 % final test accuracy, 10.00 ± 0.00 points above dam"
    )
    assert "these 3 seeds can tell it from dam (paired 95 % interval excludes 0)" in said


def test_one_seed_cannot_tell():
    (said,) = told(point("static", [0.4], [0.4]), point("dcm", [0.6], [0.4]))
    assert said == (
        "dcm has the highest mean: 60.00 % final test accuracy, 20.00 points above static, the baseline; one seed"
        " cannot tell whether this is chance."
    )


def test_one_point_is_told_without_a_comparison():
    assert told(point("dcm", DCM)) == [
        "The final test accuracy is 62.00 ± 6.57 % (mean over 3 seeds with its 95 % interval)."
    ]
    assert told(point("dcm", [0.5]), config={"target": 0.4}) == [
        "The final test accuracy is 50.00 % (one seed, hence no interval).",
        "It does not reach the target of 40 %.",
    ]


def test_the_target_is_told_with_the_first_that_reaches_it():
    points = [point("static", STATIC), point("dam", DAM), point("dcm", DCM)]
    aim = {"target": 0.45}
    assert told(*points, config=aim)[-1] == "No sweep point reaches the target of 45 %."
    points[1]["rounds_to_target"], points[2]["rounds_to_target"] = 40, 20
    assert told(*points, config=aim)[-1] == "2 of 3 sweep points reach the target of 45 %, first dcm in round 20."
    points[0]["rounds_to_target"] = 20
    together = "All sweep points reach the target of 45 %, first static and dcm in round 20."
    assert told(*points, config=aim)[-1] == together
    points[1]["rounds_to_target"] = 20
    assert told(*points, config=aim)[-1] == "All sweep points reach the target of 45 % in round 20."
    assert told(point("dcm", DCM, rounds_to_target=20), config=aim)[-1] == "It reaches the target of 45 % in round 20."
    assert len(told(*points)) == 1  # no target, nothing said of it


def test_diverged_points_are_told_and_are_not_ranked():
    lost = point("dcm", None, diverged={"0": 10, "2": 30})
    said = told(point("static", STATIC), point("dam", DAM), lost)
    assert said[0].startswith("dam is best")
    assert said[1] == "Models diverged in dcm (seeds 0 and 2); these runs are in no mean."
    assert told(point("static", STATIC), lost)[0].startswith("Only static has a finite result: its final test accuracy")
    assert told(lost) == ["No sweep point has a finite result at the end.", said[1]]


def test_a_study_without_accuracy_is_told_by_its_objective_where_less_is_better():
    points = [point("a", None, objective=statistic([2.0, 2.2])), point("b", None, objective=statistic([1.0, 1.3]))]
    (said,) = told(*points)
    # The differences are 1 and 0.9: 0.95 with the interval 12.706 * 0.0707 / sqrt(2) = 0.635.
    assert said.startswith("b is best: 1.15 ± 1.906 final objective, 0.95 ± 0.6353 below a, the runner-up")


def test_a_sweep_with_select_is_told_by_its_chosen_points():
    points = [
        {**point(f"{name}, lr={lr}", values), "overrides": {"algorithm.name": name, "algorithm.lr": lr}}
        for name, lr, values in (("x", 0.1, DCM), ("x", 0.2, DAM), ("y", 0.1, STATIC), ("y", 0.2, [0.1, 0.2, 0.3]))
    ]
    selected = [{"of": "x", "id": "x, lr=0.2"}, {"of": "y", "id": "y, lr=0.1"}, {"of": "z", "id": None}]
    said = told(*points, config={"select": "algorithm.lr"}, selected=selected)
    assert said[0].startswith("x is best: 52.00 ±")  # the chosen one, not the best on the test set
    assert said[1:] == [
        "In each setting, only the lr with the least validation loss is compared.",
        "In 1 setting, no lr kept the models finite.",
    ]


def test_studies_that_share_no_data_are_compared_without_pairs():
    a, b = point("a", STATIC), point("b", DCM)
    found = find_lead(b, a, ACCURACY, lambda *_: False)
    welch = stats.ttest_ind(DCM, STATIC, equal_var=False).confidence_interval(0.95)
    assert found.pairs is None
    np.testing.assert_allclose([found.mean, found.half], [0.2, (welch.high - welch.low) / 2])
    (said,) = verdict({"baseline": "", "points": [a, b]}, {}, lambda *_: False)
    assert said.endswith("these 3 seeds can tell it from a (95 % interval excludes 0).")


def test_only_common_seeds_are_paired():
    a, b = point("a", STATIC, seeds=[0, 1, 2]), point("b", DCM, seeds=[1, 2, 3])
    found = find_lead(b, a, ACCURACY)
    low, high = stats.t.interval(0.95, 1, *(f([0.60 - 0.44, 0.65 - 0.42]) for f in (np.mean, stats.sem)))
    np.testing.assert_allclose([found.mean, found.half], [(low + high) / 2, (high - low) / 2])
    assert (found.pairs, found.partly) == (2, True)
    (said,) = told(a, b)
    assert "points above a, the runner-up, over their 2 common seeds; these 2 common seeds can" in said


def test_common_seeds_that_contradict_the_order_of_the_means_are_told():
    a = point("a", [0.90, 0.90, 0.90, 0.50, 0.51, 0.52], seeds=[0, 1, 2, 3, 4, 5])
    b = point("b", [0.60, 0.61, 0.62], seeds=[3, 4, 5])
    first, more = told(a, b)
    assert first.startswith("a has the highest mean: ")
    assert "10.00 ± 0.00 points below b, the runner-up, over their 3 common seeds;" in first
    assert first.endswith("these 3 common seeds contradict this order.")
    assert more == "The means are over different seeds: over the common ones, b (by 10.00 ± 0.00 points) is better."
    assert not find_lead(a, b, ACCURACY).certain
    c = point("c", [0.40, 0.01, 0.00, 0.03], seeds=[2, 3, 4, 5])
    assert "these 3 to 4 common seeds contradict this order" in told(a, b, c)[0]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=9))
def test_the_lead_is_certain_exactly_if_a_paired_t_test_rejects(pairs):
    a, b = (list(values) for values in zip(*pairs))
    found = find_lead(point("a", a), point("b", b), ACCURACY)
    differences = np.subtract(a, b)
    assert found.mean == pytest.approx(differences.mean(), abs=1e-12)
    if np.ptp(differences) > 1e-9:
        chance = stats.ttest_rel(a, b).pvalue
        assert found.unclear == (chance > 0.05) or abs(chance - 0.05) < 1e-6
        assert found.certain == (not found.unclear and found.mean > 0)
