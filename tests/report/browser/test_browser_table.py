"""The table in a browser: its numbers are those of summary.json; it sorts, is never clipped, and can be filtered."""

import json

import pytest

from tests.report.browser.pages import fits, write_page

long = pytest.mark.long


@pytest.fixture
def page_of(make_workdir, open_report):
    """Writes the page of a synthetic study, after an edit of its summary, and opens it."""

    def opened(*args, width=1200, edit=lambda summary: None, **options):
        folder = make_workdir(*args, positions=False, **options)
        summary = json.loads((folder / "summary.json").read_text())
        edit(summary)
        (folder / "summary.json").write_text(json.dumps(summary))
        return open_report(write_page(folder), width)

    return opened


def column(page, key):
    """The heading of a column and the texts of its cells, from the top down."""
    heading = page.locator(f'th[data-key="{key}"]')
    at = heading.evaluate("(cell) => cell.cellIndex")
    rows = page.locator("tbody tr").evaluate_all(
        "(rows, at) => rows.filter((row) => !row.hidden).map((row) => row.cells[at].textContent)", at
    )
    return heading, rows


def test_numbers_are_those_of_the_summary_and_sort_by_what_they_are(open_report, synthetic):
    page = open_report(synthetic)
    points = json.loads((synthetic.parent / "summary.json").read_text())["points"]
    heading, texts = column(page, "final_accuracy")
    exact = [point["final_accuracy"] for point in points]
    assert texts == [f"{100 * of['mean']:.2f} ± {100 * of['ci95']:.2f}" for of in exact]
    assert heading.get_attribute("aria-sort") is None
    in_order = [text for _, text in sorted(zip([of["mean"] for of in exact], texts))]
    for press, (said, expected) in enumerate([("descending", in_order[::-1]), ("ascending", in_order), (None, texts)]):
        heading.get_by_role("button").press("Enter")
        assert heading.get_attribute("aria-sort") == said, press
        assert column(page, "final_accuracy")[1] == expected


@long
def test_missing_values_stay_at_the_end_and_only_one_heading_is_sorted(page_of):
    def edit(summary):
        for point, rounds in zip(summary["points"], (None, 9, 100, 20)):
            point["rounds_to_target"] = rounds

    page = page_of(edit=edit)
    heading, _ = column(page, "rounds_to_target")
    heading.get_by_role("button").click()
    assert column(page, "rounds_to_target")[1] == ["100", "20", "9", "-"]  # by number, and not by text
    heading.get_by_role("button").click()
    assert column(page, "rounds_to_target")[1] == ["9", "20", "100", "-"]
    page.locator("thead button").first.click()
    assert page.locator("[aria-sort]").count() == 1
    names = [text.strip() for text in column(page, "network.mobility")[1]]
    assert names == sorted(names)


@long
@pytest.mark.parametrize("width", [360, 1400])
def test_a_wide_table_of_200_rows_scrolls_in_its_own_box_with_its_names_in_view(page_of, width):
    sweep = [{"algorithm.lr": (i + 1) / 1000, "network.mobility": f"p{i % 7}_rule"} for i in range(200)]
    page = page_of(sweep, seeds=2, rounds=10, width=width)
    assert fits(page)
    box = page.locator(".wide")
    box.evaluate("(box) => box.scrollTo(400, 900)")
    inside = """(cell) => { const [a, b] = [cell, cell.closest('.wide')].map((part) => part.getBoundingClientRect());
      return a.left >= b.left && a.right <= b.right && a.top >= b.top; }"""
    assert page.locator("thead th").first.evaluate(inside)  # both sticky
    assert page.locator("tbody th").nth(60).evaluate(inside)
    assert box.get_attribute("tabindex") == "0"  # the keyboard can scroll it
    page.get_by_label("Filter rows by name").fill("P3")
    assert len(column(page, "final_accuracy")[1]) == sum("p3_" in point["network.mobility"] for point in sweep)
