"""The verdict against hand-made summaries: who is best, by how much, and whether the seeds can tell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mdfl_jax.report.verdict import ACCURACY, find_lead, verdict
from tests.report.made_report import of_summary


def statistic(values):
    """A mean and the half-width of its 95 % Student-t interval, which fewer than three seeds do not have."""
    if len(values) < 3:
        return {"mean": float(np.mean(values)), "ci95": None, "per_seed": values}
    half = stats.t(len(values) - 1).ppf(0.975) * stats.sem(values)
    return {"mean": float(np.mean(values)), "ci95": float(half), "per_seed": values}


def point(name, values, baseline=None, **others):
    """A sweep point of a sweep of the mobility; ``baseline`` are the values of the point 'static'."""
    found = {"id": name, "overrides": {"network.mobility": name}, "difference_to_baseline": None, **others}
    found["final_accuracy"] = {"mean": None, "ci95": None, "per_seed": []} if values is None else statistic(values)
    if baseline is not None and values is not None:
        difference = statistic(list(np.subtract(values, baseline)))
        found |= {"baseline": "static", "difference_to_baseline": {k: difference[k] for k in ("mean", "ci95")}}
    return found


def told(*points, config=None, **summary):
    return verdict(of_summary({"schema": 1, "baseline": "static", "points": list(points), **summary}, config))


STATIC, DAM, DCM = [0.40, 0.44, 0.42], [0.50, 0.55, 0.51], [0.60, 0.65, 0.61]


def test_the_best_is_told_with_its_interval_its_paired_lead_and_whether_the_seeds_can_tell():
    (said,) = told(point("static", STATIC, STATIC), point("dam", DAM, STATIC), point("dcm", DCM, STATIC))
    # By hand: the mean of 60, 65 and 61 is 62, its interval 4.303 * 2.646 / sqrt(3) = 6.57; the differences are 20, 21
    # and 19, with the mean 20 and the interval 4.303 * 1 / sqrt(3) = 2.48.
    assert said == (
        "dcm is best: 62.00 ± 6.57 % final test accuracy, 20.00 ± 2.48 points above static, the baseline; significantly"
        " better than all others (paired 95 % intervals, 3 seeds)."
    )
    (said,) = told(
        point("static", STATIC, STATIC), point("dam", [0.59, 0.66, 0.605], STATIC), point("dcm", DCM, STATIC)
    )
    assert said.startswith("dcm has the highest mean: 62.00 ± 6.57 %")
    assert said.endswith("; no significant difference from dam (paired 95 % intervals, 3 seeds).")
    # The differences are 0.01, -0.01 and 0.005: their mean is 0.17 points, the interval 4.303 * 1.041 / sqrt(3) = 2.59.
    (said,) = told(point("dam", [0.59, 0.66, 0.605]), point("dcm", DCM))
    assert said == (
        "No difference was found between dcm and dam (0.17 ± 2.59 points; paired 95 % interval, 3 seeds)."
        " dcm has the highest mean: 62.00 ± 6.57 % final test accuracy."
    )
    (said,) = told(point("static", DCM, DCM), point("dam", DAM, DCM))
    assert said.startswith(
        "static, the baseline, is best: 62.00 ± 6.57 % final test accuracy, 10.00 ± 0.00 points above"
    )
    (said,) = told(point("static", [0.4], [0.4]), point("dcm", [0.6], [0.4]))
    assert said.startswith("dcm has the highest mean: 60.00 % final test accuracy, 20.00 points above static")
    assert said.endswith("one seed is too few for an interval.")
    (said,) = told(point("static", [0.4, 0.5], [0.4, 0.5]), point("dcm", [0.6, 0.7], [0.4, 0.5]))
    assert said == (
        "dcm has the highest mean: 65.00 % final test accuracy, 20.00 points above static, the baseline; two seeds are"
        " too few for an interval."
    )
    (said,) = told(point("dcm", DCM))
    assert said == "The final test accuracy is 62.00 ± 6.57 % (mean over 3 seeds with its 95 % interval)."


def test_diverged_points_are_told_and_are_not_ranked_and_without_accuracies_the_objective_counts():
    lost = point("dcm", None, diverged={"0": 10, "2": 30})
    said = told(point("static", STATIC), point("dam", DAM), lost)
    assert said[0].startswith("dam is best")
    assert said[1] == "Models diverged in dcm (seeds 0 and 2); these runs are in no mean."
    assert told(lost) == ["No sweep point has a finite result at the end.", said[1]]
    points = [point("a", None, objective=statistic([2.0, 2.2, 2.1]))]
    points += [point("b", None, objective=statistic([1.0, 1.3, 1.15]))]
    (said,) = told(*points)  # the differences are 1, 0.9 and 0.95: the interval is 4.303 * 0.05 / sqrt(3) = 0.1242
    assert said.startswith("b is best: 1.15 ± 0.3726 final objective, 0.95 ± 0.1242 below a, the runner-up")


@pytest.mark.filterwarnings("ignore:Precision loss")  # scipy, where all values are equal
@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=9), st.booleans())
def test_the_lead_is_certain_exactly_if_a_t_test_rejects(pairs, paired):
    """The paired test, or Welch's of studies that share no data; seeds that the other lacks are left out of pairs."""
    a, b = (list(values) for values in zip(*pairs))
    seeds = list(range(len(a)))
    ours = point("a", [*a, 0.3] if paired else a, seeds=[*seeds, 77] if paired else seeds)
    found = find_lead(ours, point("b", b, seeds=seeds), ACCURACY, lambda *_: paired)
    assert found.mean == pytest.approx(np.subtract(a, b).mean(), abs=1e-12)
    assert found.pairs == (len(a) if paired else None)
    if np.ptp(np.subtract(a, b)) > 1e-9 and np.ptp(a) + np.ptp(b) > 1e-9:
        test = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
        low, high = test.confidence_interval(0.95)
        assert found.half == pytest.approx((high - low) / 2, rel=1e-5)
        assert found.unclear == (test.pvalue > 0.05) or abs(test.pvalue - 0.05) < 1e-6
        assert found.certain == (not found.unclear and found.mean > 0)
