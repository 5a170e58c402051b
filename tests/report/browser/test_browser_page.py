"""Whole pages in a browser: every kind of study opens without error or request, in both themes, on a phone and printed.

The table's numbers are those of summary.json; it sorts by what they are. The page of a study that has just run has its
numbers.
"""

import json

import pytest
from tiny import run_study, tiny_config

from mdfl_jax.report.registry import panels_in_order
from mdfl_jax.results.results import Results
from mdfl_jax.study import make_study
from tests.report.browser.pages import by_axe, fits
from tests.report.kinds import KINDS, write_page
from tests.report.made_report import edit

long = pytest.mark.long
OPENED = [kind for kind in KINDS if kind not in ("plain", "two hundred points")]  # axe takes half a minute on many


@pytest.mark.parametrize("kind", ["plain", *(pytest.param(kind, marks=long) for kind in OPENED)])
def test_every_kind_of_page_draws_its_panels_is_accessible_and_prints(open_report, show_all, folder_of, kind):
    page = open_report(folder_of(kind), 360, "dark")
    shown = show_all(page)
    if kind not in ("unfinished", "compared"):
        run = Results.read(folder_of(kind)).shown()
        assert shown == {name for name, panel in panels_in_order().items() if panel.applies(run) and panel.chart}
    assert page.locator("main img").count() == 0  # no panel has only a picture, and no text has become an element
    pytest.importorskip("axe_playwright_python")
    assert by_axe(page) == {}
    page.set_viewport_size({"width": 1200, "height": 900})
    page.locator("#theme").click()
    assert fits(page)
    assert by_axe(page) == {}
    if kind == "one run":
        page.evaluate("document.querySelector('.note').style.color = 'var(--rule)'")
        assert set(by_axe(page)) == {"color-contrast"}  # so axe would have told
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    assert set(page.locator(".tools").evaluate_all("all => all.map((of) => getComputedStyle(of).display)")) <= {"none"}


def test_the_browser_refuses_what_the_page_does_not_hold(browser, reported):
    page = browser.new_page()
    page.goto((reported / "report.html").as_uri())
    refused = page.evaluate(
        """async () => {
          const found = [];
          document.addEventListener("securitypolicyviolation", (event) => found.push(event.effectiveDirective));
          for (const tag of ["img", "script"])
            document.body.append(Object.assign(document.createElement(tag), { src: "https://example.org/x" }));
          await fetch("https://example.org/").catch(() => null);
          await new Promise((then) => setTimeout(then, 100));
          return found.sort();
        }"""
    )
    picture = page.evaluate("Plotly.toImage({ data: [{ y: [1, 2] }], layout: {} }, { format: 'png' })")
    page.close()
    assert refused == ["connect-src", "img-src", "script-src-elem"]
    assert picture.startswith("data:image/png")  # what the page makes itself is allowed


@long
def test_the_keyboard_leads_through_the_page_and_the_theme_changes_its_colours(open_report, show_panel, reported):
    page = open_report(reported, scheme="light")
    assert page.title() == page.locator("h1").inner_text() == 'Moves & <b>"mixes"</b>'
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        # Who has the focus has a visible outline.
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", reached
    assert reached[:2] == ["Skip to the results", "theme"]
    show_panel(page, "final_accuracy")
    colours = """() => [getComputedStyle(document.body).backgroundColor,
      document.querySelector('#final_accuracy .chart').layout.font.color, mdfl.visible('#440154')]"""
    light = page.evaluate(colours)
    assert light == ["rgb(255, 255, 255)", "#1d2126", "#440154"]
    page.locator("#theme").press("Enter")
    page.wait_for_function("() => document.querySelector('#final_accuracy .chart').layout.font.color === '#e6e9ed'")
    dark = page.evaluate(colours)
    assert dark[:2] == ["rgb(21, 24, 28)", "#e6e9ed"]
    assert dark[2] != "#440154"  # lightened until it can be seen in the dark
    page.emulate_media(media="print")  # prints have the light colours, whatever the reader has chosen
    page.wait_for_function("() => document.querySelector('#final_accuracy .chart').layout.font.color === '#1d2126'")
    assert page.evaluate(colours) == light


def column(page, key):
    """The heading of a column and the texts of its cells, from the top down."""
    heading = page.locator(f'th[data-key="{key}"]')
    at = heading.evaluate("(cell) => cell.cellIndex")
    rows = page.locator("tbody tr").evaluate_all(
        "(rows, at) => rows.filter((row) => !row.hidden).map((row) => row.cells[at].textContent)", at
    )
    return heading, rows


def test_the_table_has_the_numbers_of_the_summary_and_sorts_them_by_what_they_are(make_workdir, open_report):
    rounds = (None, 9, 100, 20)
    folder = edit(
        make_workdir(positions=False),
        points=lambda points: [point | {"rounds_to_target": at} for point, at in zip(points, rounds)],
    )
    page = open_report(write_page(folder))
    heading, texts = column(page, "final_accuracy")
    exact = [point["final_accuracy"] for point in json.loads((folder / "summary.json").read_text())["points"]]
    assert texts == [f"{100 * of['mean']:.2f} ± {100 * of['ci95']:.2f}" for of in exact]
    ascending = [text for _, text in sorted(zip([of["mean"] for of in exact], texts))]
    for said, expected in (("descending", ascending[::-1]), ("ascending", ascending), (None, texts)):
        heading.get_by_role("button").press("Enter")
        assert heading.get_attribute("aria-sort") == said
        assert column(page, "final_accuracy")[1] == expected
    heading, _ = column(page, "rounds_to_target")
    for expected in (["100", "20", "9", "-"], ["9", "20", "100", "-"]):  # by number; what is missing stays at the end
        heading.get_by_role("button").click()
        assert column(page, "rounds_to_target")[1] == expected


@long
def test_the_page_of_a_study_that_has_just_run_opens_and_has_its_numbers(open_report, show_all, tmp_path):
    summary = run_study(make_study(tiny_config(sweep="network.mobility=static,dcm")), tmp_path / "run")
    page = open_report(Results.read(tmp_path / "run").report(), 800)
    assert {"map", "contacts", "groups", "metrics"} <= show_all(page)
    shown = [text.split(" ±")[0] for text in column(page, "final_accuracy")[1]]
    assert shown == [f"{100 * point['final_accuracy']['mean']:.2f}" for point in summary["points"]]
    page.locator("section#map").get_by_role("button", name="Play").click()
    page.wait_for_function("() => document.querySelector('#map .chart').map.round >= 4")
