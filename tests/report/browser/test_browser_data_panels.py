"""The clients' data and the groups in a browser: what is drawn, the choice of the data, and the room that there is."""

import dataclasses

import numpy as np
import pytest

from mdfl_jax.report.read import read_workdir
from tests.report.browser.pages import fits, write_page

pytestmark = pytest.mark.long
SWEEP = [{"data.alpha": 0.1}, {"data.alpha": 9.0}]
DRAWN = "document.querySelector('#label_counts .js-plotly-plot').data"
CELLS = f"{DRAWN}[0].customdata.map((row) => row.map(([count]) => count ? String(count) : ''))"


@pytest.fixture
def opened(make_workdir, open_report):
    """Opens the page of a study of two sweep points whose data differ: 1 to 80 samples in each cell, and 3."""

    def opened_at(width, first=None, name="label_counts"):
        run = read_workdir(make_workdir(SWEEP, rounds=20, positions=False))
        counts = np.arange(80).reshape(8, 10) if first is None else first
        arrays = {"0/label_counts": counts[None], "1/label_counts": np.full((1, 8, 10), 3)}
        run = dataclasses.replace(run, arrays=dict(run.arrays) | arrays)
        return open_report(write_page(run), width)

    return opened_at


def test_the_counts_are_drawn_and_another_division_can_be_chosen(opened, show_panel):
    page = opened(1200)
    panel = show_panel(page, "label_counts")
    expected = [[str(count) if count else "" for count in row] for row in np.arange(80).reshape(8, 10).T.tolist()]
    assert page.evaluate(CELLS) == expected
    assert "45.0" not in panel.inner_text()
    written = page.evaluate(f"{DRAWN}[1].x.map((i, k) => [i, {DRAWN}[1].y[k], {DRAWN}[1].text[k]])")
    assert sorted(written) == [[i, c, str(10 * i + c)] for i in range(8) for c in range(10) if i + c]
    panel.get_by_label("Data of").select_option(label="alpha = 9")
    page.wait_for_function(f"() => ({CELLS})[0][0] === '3'")
    assert page.evaluate(CELLS) == [["3"] * 8] * 10
    assert "Every client has 30 samples." in panel.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_are_legible_on_their_cells(opened, show_panel, scheme):
    page = opened(1200)
    page.emulate_media(color_scheme=scheme)
    show_panel(page, "label_counts")
    worst = """() => {
      const plot = document.querySelector('#label_counts .js-plotly-plot');
      const [{ colorscale, zmin, zmax }, { text, textfont }] = plot.data;
      const [from, to] = colorscale.map(([, colour]) => mdfl.parse(colour));
      return Math.min(...text.map((count, k) => {
        const share = (Math.log10(count) - zmin) / (zmax - zmin);
        const cell = mdfl.luminance(from.map((part, at) => part + share * (to[at] - part)));
        const [low, high] = [cell, mdfl.luminance(mdfl.parse(textfont.color[k]))].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
      }));
    }"""
    assert page.evaluate(worst) >= 4.5


def test_on_a_phone_the_numbers_are_in_the_colour_bar_and_nothing_is_wider_than_the_screen(opened, show_panel):
    page = opened(360, first=np.arange(800).reshape(80, 10))
    show_panel(page, "label_counts")
    assert page.evaluate(f"[{DRAWN}[1].text.length, {DRAWN}[0].showscale]") == [0, True]
    assert fits(page)


def test_small_multiples_stand_beside_each_other_where_there_is_room(make_workdir, open_report, show_panel):
    run = read_workdir(make_workdir(rounds=20, positions=False))
    keys = ("accuracy_mobile", "accuracy_other", "num_neighbours_mobile", "num_neighbours_other")
    ones = {key: np.full((3, 3), 0.5) for key in keys}
    curves = {name: dataclasses.replace(curve, groups=ones) for name, curve in run.curves.items()}
    run = dataclasses.replace(run, curves=curves)
    page = open_report(write_page(run), 1200)
    show_panel(page, "groups")
    axes = "['xaxis', 'xaxis2', 'xaxis3'].map((name) => document.querySelector('#groups .chart').layout[name])"
    lefts = f"new Set({axes}.map((axis) => axis.domain[0])).size"
    assert page.evaluate(lefts) == 3
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_function(f"() => {lefts} === 1")
    page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")  # other panels take their time
