"""The panels of curves and of traffic, and the data of the curves that the reader of the page explores."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mdfl_jax.report import style
from mdfl_jax.report.panels.curves import explorer, stored
from mdfl_jax.report.quantities import recorded
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.results.results import Results
from tests.report.made_report import change

RADII = [{"network.radius": float(r)} for r in range(1, 201)]


def test_final_accuracies_have_a_row_for_each_point_in_the_order_of_the_study(study):
    for count in (1, 4, 200):
        run = study(RADII[:count], seeds=2, rounds=10, positions=False)
        panels = FIGURES["final_accuracy"].chart(run).data["panels"]
        seeds, means = ([of["traces"][k::2] for of in panels] for k in (0, 1))
        found = [trace["x"][0] for of in means for trace in of]
        np.testing.assert_allclose(found, [100 * point["final_accuracy"]["mean"] for point in run.outcomes])
        assert {len(trace["x"]) for of in seeds for trace in of} == {2}
        labels = [text.replace("<br>", " ") for panel in panels for text in panel["yaxis"]["ticktext"]]
        assert labels == [look.label for look in style.looks(run)]
        assert sum(panel["height"] for panel in panels) / count >= 15  # pixels a row
        rows = FIGURES["final_accuracy"].numbers(run)[1:]  # of each point the two seeds, then the mean
        assert [(row[3], row[5]) for row in rows[2::3]] == list(zip(labels, found))


def test_points_with_other_rounds_and_seeds_have_gaps_and_the_later_line_counts(make_workdir):
    def cut(row):
        return None if row["point"] == "dcm" and (row["seed"] == 2 or row["round"] == 40) else row

    folder = change(make_workdir(), cut)
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"schema": 1, "point": "dam", "seed": 1, "round": 10, "accuracy": null}\n\n')
        file.write('{"schema": 1, "point": "dcm", "seed": 1, "round": 10, "accuracy": 0.125}\n')
    run = Results.read(folder).shown()
    known = np.isfinite(recorded(run).values["accuracy"])
    expected = np.ones_like(known)
    expected[3, 2], expected[3, :, 4], expected[2, 1, 1] = False, False, False
    np.testing.assert_array_equal(known, expected)
    assert run.curves["dcm"].accuracy[1, 1] == 0.125
    assert [list(point["seeds"]) for point in explorer(run)["points"]] == [[0, 1, 2]] * 3 + [[0, 1]]


numbers = st.floats(-1e6, 1e6, width=32) | st.just(float("nan")) | st.just(float("inf"))


@given(st.lists(numbers, min_size=1, max_size=30).filter(lambda of: np.isfinite(of).any()))
def test_stored_numbers_are_within_half_a_step(listed):
    values = np.array(listed)
    levels, how = stored(values)
    known = np.isfinite(values)
    assert ((levels == 0xFFFF) == ~known).all()
    found = how["low"] + how["step"] * levels[known].astype(float)
    expected = np.log(values[known]) if how["log"] else values[known]
    assert np.abs(found - expected).max() <= 0.5 * how["step"] * (1 + 1e-6)
    assert how["step"] <= max(np.ptp(expected) / 65534 * (1 + 1e-9), 1.0)
