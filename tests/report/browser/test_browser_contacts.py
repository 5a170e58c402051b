"""The panel of the contacts in a browser: the reader chooses what it shows."""

import pytest

from mdfl_jax.report.page import write_report
from tests.report.browser.pages import fits
from tests.report.conftest import write_workdir
from tests.report.recorded_rounds import add_records

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_report(add_records(write_workdir(tmp_path_factory.mktemp("contacts") / "run"), radius=4.0))


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_the_select_changes_what_is_drawn(report, open_report, show_panel, width, scheme):
    page = open_report(report, width=width, scheme=scheme)
    section = show_panel(page, "contacts")
    select, note = section.get_by_label("Show"), section.get_by_role("status")
    titles = []
    for name in ("windows", "components", "gaps"):
        label = {"windows": "Rounds that connect everybody", "components": "Separate groups"}.get(name)
        select.select_option(label=label or "Inter-contact times")
        titles.append((section.locator(".xtitle").text_content(), note.inner_text()))
        assert section.locator(".scatterlayer .trace").count() == 4
    assert len(set(titles)) == 3
    assert titles[0][0] == "rounds of a window"
    assert fits(page)
    select.focus()  # by keyboard alone
    page.keyboard.press("ArrowDown")
    assert section.locator(".xtitle").text_content() == "rounds of a contact"
