"""The clients' data and the groups in a browser: what is drawn, the choice of the data, and the room that there is."""

import dataclasses

import numpy as np
import pytest

from mdfl_jax.report.page import render
from mdfl_jax.report.read import read_workdir

pytestmark = pytest.mark.long
SWEEP = [{"data.alpha": 0.1}, {"data.alpha": 9.0}]
CELLS = "[...document.querySelector('#label_counts .js-plotly-plot').data[0].text].map((row) => [...row])"


@pytest.fixture
def opened(make_workdir, open_report):
    """Opens the page of a study of two sweep points whose data differ: 1 to 80 samples in each cell, and 3."""

    def opened_at(width, first=None, name="label_counts"):
        run = read_workdir(make_workdir(SWEEP, rounds=20, positions=False))
        counts = np.arange(80).reshape(8, 10) if first is None else first
        arrays = {"0/label_counts": counts, "1/label_counts": np.full((8, 10), 3)}
        run = dataclasses.replace(run, first_seed=run.first_seed | arrays)
        (run.workdir / "report.html").write_text(render(run), encoding="utf-8")
        return open_report(run.workdir, width)

    return opened_at


def test_the_counts_are_drawn_and_another_division_can_be_chosen(opened, show_panel):
    page = opened(1200)
    panel = show_panel(page, "label_counts")
    expected = [[str(count) if count else "" for count in row] for row in np.arange(80).reshape(8, 10).T.tolist()]
    assert page.evaluate(CELLS) == expected
    assert "45.0" not in panel.inner_text()
    panel.get_by_label("Data of").select_option(label="alpha = 9")
    page.wait_for_function(f"({CELLS})[0][0] === '3'")
    assert page.evaluate(CELLS) == [["3"] * 8] * 10
    assert "Every client has 30 samples." in panel.inner_text()


def test_on_a_phone_the_numbers_are_in_the_colour_bar_and_nothing_is_wider_than_the_screen(opened, show_panel):
    page = opened(360, first=np.arange(800).reshape(80, 10))
    show_panel(page, "label_counts")
    drawn = "document.querySelector('#label_counts .js-plotly-plot').data[0]"
    assert page.evaluate(f"[{drawn}.texttemplate, {drawn}.showscale]") == ["", True]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_small_multiples_stand_beside_each_other_where_there_is_room(make_workdir, open_report, show_panel):
    run = read_workdir(make_workdir(rounds=20, positions=False))
    keys = ("accuracy_mobile", "accuracy_other", "num_neighbours_mobile", "num_neighbours_other")
    ones = {key: np.full((3, 3), 0.5) for key in keys}
    curves = {name: dataclasses.replace(curve, groups=ones) for name, curve in run.curves.items()}
    run = dataclasses.replace(run, curves=curves)
    (run.workdir / "report.html").write_text(render(run), encoding="utf-8")
    page = open_report(run.workdir, 1200)
    show_panel(page, "groups")
    axes = "['xaxis', 'xaxis2', 'xaxis3'].map((name) => document.querySelector('#groups .chart').layout[name])"
    lefts = f"new Set({axes}.map((axis) => axis.domain[0])).size"
    assert page.evaluate(lefts) == 3
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_function(f"{lefts} === 1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
