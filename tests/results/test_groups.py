"""Metrics by group against a calculation in loops, and groups without clients."""

import pytest
from made_study import measured, summary_of

from mdfl_jax.core.outcomes import interval
from mdfl_jax.storage.disk import plain


def oracle(run, members):
    """Accuracy at each evaluation and contacts at the end, of a list of clients, one number at a time."""
    accuracy, contacts = [], 0.0
    for e in range(4):
        accuracy.append(sum(float(run.arrays["accuracy"][e, i]) for i in members) / len(members))
    for i in members:
        for e in range(1, 4):  # two rounds an evaluation
            contacts += 2 * float(run.arrays["num_neighbours"][e, i]) / len(members)
    return accuracy, contacts


def test_groups_of_the_summary_and_the_lines_are_those_of_the_oracle(tmp_path):
    runs, gaps, last_gaps = [measured("p", seed, rounds=6, mobile=2) for seed in range(3)], [], []
    point = summary_of(tmp_path, *runs)
    for s, run in enumerate(runs):
        (mobile, met_mobile), (other, met_other) = (oracle(run, members) for members in ([0, 1], [2, 3, 4, 5]))
        gaps.append(sum(a - b for a, b in zip(mobile[1:], other[1:])) / 3)
        last_gaps.append(mobile[-1] - other[-1])
        for group, accuracy, met in (("mobile", mobile, met_mobile), ("other", other, met_other)):
            assert point["group_accuracy"][group]["per_seed"][s] == pytest.approx(accuracy[-1])
            assert point["group_neighbours"][group]["per_seed"][s] == pytest.approx(met)
            assert [line[f"accuracy_{group}"] for line in run.lines] == pytest.approx(accuracy)
    for key, values in (("mean", gaps), ("final", last_gaps)):
        assert point["group_gap"][key]["per_seed"] == pytest.approx(values)
        assert point["group_gap"][key]["ci95"] == pytest.approx(interval(values)["ci95"])
    nothing = {"mean": None, "std": None, "ci95": None, "per_seed": [None]}
    for mobile, empty, whole in ((0, "mobile", "other"), (6, "other", "mobile")):
        point = plain(
            summary_of(tmp_path / empty, measured("p", 0, rounds=6, mobile=mobile))
        )  # NaN is null in the file
        assert point["group_accuracy"][empty] == point["group_neighbours"][empty] == nothing
        assert point["group_accuracy"][whole]["per_seed"] == pytest.approx(point["final_accuracy"]["per_seed"])
