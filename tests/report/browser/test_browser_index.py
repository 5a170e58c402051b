"""The page that lists the studies of a folder: what it says, what it never replaces, and how it works in a browser."""

import pytest
from made_study import made

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.page import find_studies, list_study, write_index
from tests.report.browser.pages import by_axe
from tests.report.kinds import HOSTILE, write_page


def test_the_page_lists_each_study_sorts_filters_and_leads_to_the_reports(open_report, tmp_path):
    """In the folder are a finished study, a part of one, a damaged one and files of something else."""
    folder = tmp_path / "studies"
    made(folder / "one", name="one", title=HOSTILE, sweep="network.mobility=static,dcm")
    write_page(folder / "one")
    whole = made(folder / "deep" / "two", name="two", title="the second", seeds=3)
    next((whole.workdir / "runs").glob("*-s2-r*.safetensors")).unlink()
    for name, text in (("broken/config.json", "{"), ("notes/mine.html", "<title>mine</title>")):
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    write_index(folder)
    for asked, out, said in (
        (folder, folder / "notes" / "mine.html", "it is a file of something else"),
        (folder / "notes", None, "it holds no study"),
    ):
        with pytest.raises(UserError, match=said):
            write_index(asked, out)
    assert (folder / "notes" / "mine.html").read_text() == "<title>mine</title>"
    names = ["broken", "deep/two", "one"]
    assert [str(path.relative_to(folder)) for path in find_studies(folder)] == names
    broken, two, one = (list_study(folder, folder / name) for name in names)
    assert (one.done, one.runs, one.points, one.seeds, one.page) == (4, 4, 2, 2, "one/report.html")
    assert (two.title, two.done, two.runs, two.page) == ("the second", 2, 3, "")
    assert "config.json: not valid JSON" in broken.verdict
    page = open_report(folder / "index.html")
    assert by_axe(page) == {}
    rows, link = page.locator("tbody tr:visible"), page.locator("tbody a")
    assert (rows.count(), link.inner_text(), link.get_attribute("href")) == (3, HOSTILE, "one/report.html")
    page.get_by_label("Filter rows by name").fill("second")
    assert (rows.count(), page.locator("[role=status]").inner_text()) == (1, "1 of 3 rows")
    page.get_by_label("Filter rows by name").fill("")
    page.get_by_role("button", name="runs").click()
    assert rows.first.locator("a").count() == 1  # most runs first
