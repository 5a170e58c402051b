"""The pages of a comparison and of an unfinished study in a browser."""

import json

import pytest

from mdfl_jax.report.compare import read_studies
from mdfl_jax.report.page import render
from tests.report.browser.test_browser_page import by_axe, drawn_panels
from tests.report.conftest import write_workdir
from tests.report.test_partial import unfinish

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished study, an unfinished one, and the pages of a comparison and of the latter."""
    folder = tmp_path_factory.mktemp("compare")
    write_workdir(folder / "one", title="one & <b>only</b>")
    unfinish(write_workdir(folder / "two"), lambda row: row["round"] <= 20)
    (folder / "both.html").write_text(render(read_studies([folder / "one", folder / "two"], folder)))
    (folder / "two.html").write_text(render(read_studies([folder / "two"])))
    return folder


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (800, "light"), (1400, "light")])
def test_a_comparison_opens_and_all_panels_draw(open_report, show_panel, folder, width, scheme):
    page = open_report(folder / "both.html", width, scheme)
    assert {"accuracy", "final_accuracy"} <= drawn_panels(page, show_panel).keys()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#studies h3").all_inner_texts()[:2] == ["one", "two"]


def test_the_numbers_of_a_comparison_are_those_of_its_studies(open_report, folder):
    page = open_report(folder / "both.html")
    rows = page.locator("#results tbody tr")
    assert rows.count() == 8
    lines = [json.loads(line) for line in (folder / "one" / "metrics.jsonl").read_text().splitlines()]
    at_20 = [row["accuracy"] for row in lines if (row["point"], row["round"]) == ("dcm", 20)]
    shown = rows.nth(3).inner_text().replace("\t", " ")
    assert f"{100 * sum(at_20) / len(at_20):.2f} ±" in shown  # one's dcm at the last common round
    assert "unfinished" in page.locator(".banner").inner_text()


def test_axe_finds_no_serious_fault_in_a_comparison(open_report, show_panel, folder):
    pytest.importorskip("axe_playwright_python")
    page = open_report(folder / "both.html")
    drawn_panels(page, show_panel)
    assert by_axe(page) == {}


def test_an_unfinished_study_says_so_at_the_top(open_report, show_panel, folder):
    page = open_report(folder / "two.html")
    assert (
        page.locator(".banner p").first.inner_text().startswith("This study is unfinished: of its 12 runs 0 have ended")
    )
    drawn_panels(page, show_panel)
