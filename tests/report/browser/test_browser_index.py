"""The page that lists the studies of a folder: what it says, what it never replaces, and how it works in a browser."""

import json

import pytest
from made_study import made

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.page import find_studies, list_study, write_index
from tests.report.browser.pages import by_axe
from tests.report.kinds import HOSTILE, write_page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a finished study, a part of one, a damaged one and files of something else."""
    folder = tmp_path_factory.mktemp("studies")
    made(folder / "one", name="one", title=HOSTILE, sweep="network.mobility=static,dcm")
    write_page(folder / "one")
    whole = made(folder / "deep" / "two", name="two", title="the second", seeds=3)
    next((whole.workdir / "runs").glob("*-s2-r*.safetensors")).unlink()
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{")
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.txt").write_text("mine")
    write_index(folder)
    return folder


def test_each_study_has_a_row(folder):
    names = ["broken", "deep/two", "one"]
    assert [str(path.relative_to(folder)) for path in find_studies(folder)] == names
    broken, two, one = (list_study(folder, folder / name) for name in names)
    assert (one.done, one.runs, one.points, one.seeds, one.page) == (4, 4, 2, 2, "one/report.html")
    assert (two.title, two.done, two.runs, two.page) == ("the second", 2, 3, "")
    assert "config.json: not valid JSON" in broken.verdict


def test_a_file_of_something_else_is_not_replaced(folder, tmp_path):
    other = tmp_path / "index.html"
    other.write_text("<title>mine</title>")
    with pytest.raises(UserError, match="it is a file of something else"):
        write_index(folder, other)
    assert other.read_text() == "<title>mine</title>"
    with pytest.raises(UserError, match="it holds no study"):
        write_index(folder / "notes")


def test_the_page_sorts_filters_and_leads_to_the_reports(open_report, folder):
    page = open_report(folder / "index.html")
    assert by_axe(page) == {}
    rows = page.locator("tbody tr:visible")
    assert rows.count() == 3
    link = page.locator("tbody a")
    assert (link.count(), link.inner_text(), link.get_attribute("href")) == (1, HOSTILE, "one/report.html")
    page.get_by_label("Filter rows by name").fill("second")
    assert (rows.count(), json.dumps(page.locator("[role=status]").inner_text())) == (1, '"1 of 3 rows"')
    page.get_by_label("Filter rows by name").fill("")
    page.get_by_role("button", name="runs").click()
    assert rows.first.locator("a").count() == 1  # most runs first
