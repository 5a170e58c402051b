"""The data of the curves that the reader of the page explores."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mdfl_jax.report.panels.curves import explorer, stored
from mdfl_jax.report.quantities import recorded
from mdfl_jax.results.results import Results
from tests.report.made_report import change


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
