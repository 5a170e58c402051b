"""The matrix of rivals in a browser: other measures and references, and a click that shows the setting's curves."""

import itertools

import pytest

from tests.report.browser.pages import write_page

POINTS = [
    {"network.radius": radius, "network.mobility": rule}
    for radius, rule in itertools.product((1.0, 3.0), ("static", "dam", "dcm"))
]


@pytest.fixture
def page(make_workdir, open_report, show_panel):
    folder = make_workdir(POINTS, seeds=4, rounds=20, positions=False)
    write_page(folder)
    shown = open_report(folder)
    show_panel(shown, "rivals")
    return shown


def columns(page):
    return page.locator("#rivals .plot").evaluate("(plot) => plot.layout.xaxis.ticktext")


def cells(page):
    return page.locator("#rivals .plot").evaluate("(plot) => Array.from(plot.data[0].z, (row) => Array.from(row))")


def test_another_reference_changes_sides(page):
    assert columns(page) == ["dam", "dcm"]
    before = cells(page)
    page.locator("#rivals select[name=reference]").select_option("2")
    assert columns(page) == ["static", "dam"]
    assert [row[0] for row in cells(page)] == pytest.approx([-row[1] for row in before])


def test_another_measure_changes_the_numbers(page):
    before = cells(page)
    page.locator("#rivals select[name=measure]").select_option("1")
    assert cells(page) != before


def test_a_click_shows_the_curves_of_the_setting(page):
    area = page.locator("#rivals .nsewdrag")
    area.click(position={"x": 30, "y": 0.75 * area.bounding_box()["height"]})  # the second row
    page.wait_for_function("document.querySelector('#accuracy .chart').explorer?.state.points.size === 3")
    picked = page.locator("#accuracy .chart").evaluate("(chart) => [...chart.explorer.state.points].sort()")
    assert picked == [3, 4, 5]
