"""The pages of a comparison and of an unfinished study in a browser."""

import json

import pytest

from mdfl_jax.report.compare import read_studies
from mdfl_jax.report.page import render
from tests.report.browser.pages import by_axe
from tests.report.conftest import write_workdir
from tests.report.made_report import change, unfinish

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
def test_a_comparison_opens_and_all_panels_draw(open_report, show_all, folder, width, scheme):
    page = open_report(folder / "both.html", width, scheme)
    assert {"accuracy", "final_accuracy"} <= show_all(page)
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


def test_axe_finds_no_serious_fault_in_a_comparison(open_report, show_all, folder):
    pytest.importorskip("axe_playwright_python")
    page = open_report(folder / "both.html")
    show_all(page)
    assert by_axe(page) == {}


def test_an_unfinished_study_says_so_at_the_top(open_report, show_all, folder):
    page = open_report(folder / "two.html")
    said = page.locator(".banner p").first.inner_text()
    assert said.startswith("This study is unfinished: of its 12 runs 0 have ended")
    show_all(page)


def test_the_differences_of_many_points_sort_by_number_and_each_table_has_a_filter(open_report, tmp_path):
    sweep = [{"algorithm.lr": (i + 1) / 1000} for i in range(16)]
    for name in ("one", "two"):
        write_workdir(tmp_path / name, sweep, seeds=2, positions=False)
    change(tmp_path / "two", lambda row: row | {"accuracy": row["accuracy"] * (1 - 20 * float(row["point"]))})
    (tmp_path / "report.html").write_text(render(read_studies([tmp_path / "one", tmp_path / "two"], tmp_path)))
    page = open_report(tmp_path)
    table = page.locator("#studies table.sortable")
    heading = table.get_by_role("button", name="difference")
    shown = lambda: table.locator("tbody tr:visible td:nth-child(4)").all_inner_texts()  # noqa: E731
    before = shown()
    numbers = sorted((float(text.split()[0]) for text in before), reverse=True)
    assert len(set(numbers)) == 16
    assert numbers[-1] < -10 < numbers[0] < 0
    for order in (numbers, numbers[::-1]):
        heading.click()
        assert [float(text.split()[0]) for text in shown()] == order
    heading.click()
    assert shown() == before
    table.locator("xpath=../preceding-sibling::div[1]").get_by_role("searchbox").fill("0.012")
    assert len(shown()) == 1
    assert page.locator("#results tbody tr:visible").count() == 32
    page.locator("#results").get_by_role("searchbox").fill("two 0.012")
    assert page.locator("#results tbody tr:visible").count() == 1
    names = page.locator("[id]").evaluate_all("found => found.map((element) => element.id)")
    assert len(names) == len(set(names))
