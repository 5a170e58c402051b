"""Whole pages in a browser: every kind of study opens without error or request, in both themes, on a phone and printed.

The table's numbers are those of summary.json; it sorts, is never clipped, and can be filtered. Shipped studies are run
for some rounds, and their pages have the right numbers.
"""

import itertools
import json
import re

import pytest

import mdfl_jax
from mdfl_jax.config import resolve
from mdfl_jax.config.resolve import as_config
from mdfl_jax.report.page import write_report
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import in_order
from tests.report.browser.pages import by_axe, fits
from tests.report.kinds import KINDS, write_page
from tests.report.made_report import edit

long = pytest.mark.long


@pytest.mark.parametrize("kind", ["plain", *(pytest.param(kind, marks=long) for kind in KINDS if kind != "plain")])
def test_every_kind_of_page_draws_its_panels_is_accessible_and_prints(open_report, show_all, folder_of, kind):
    page = open_report(folder_of(kind), 360, "dark")
    shown = show_all(page)
    if kind not in ("unfinished", "compared"):
        run = read_workdir(folder_of(kind))
        assert shown == {name for name, panel in in_order().items() if panel.applies(run) and panel.chart}
    assert page.locator("main img").count() == 0  # no panel has only a picture, and no text has become an element
    pytest.importorskip("axe_playwright_python")
    if kind != "two hundred points":  # on which axe takes half a minute, and finds what it finds on others
        assert by_axe(page) == {}
    page.set_viewport_size({"width": 1200, "height": 900})
    page.locator("#theme").click()
    assert fits(page)
    if kind != "two hundred points":
        assert by_axe(page) == {}
    if kind == "one run":
        page.evaluate("document.querySelector('.note').style.color = 'var(--rule)'")
        assert set(by_axe(page)) == {"color-contrast"}  # so axe would have told
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    assert set(page.locator(".tools").evaluate_all("all => all.map((of) => getComputedStyle(of).display)")) <= {"none"}


@pytest.mark.parametrize("kind", ["records", pytest.param("every panel", marks=long)])
def test_a_loaded_page_is_drawn_whole_and_its_print_is_light_and_as_wide_as_the_paper(open_report, folder_of, kind):
    page = open_report(folder_of(kind), 1400, "dark")  # the page has then been loaded, and was not scrolled
    assert page.locator(".panel[data-kind]:not([data-state=drawn])").count() == 0
    page.evaluate(
        """() => addEventListener("beforeprint", () => {
          const wide = (of) => Math.max(...[...document.querySelectorAll(of)].map((one) => one.clientWidth));
          const high = [...document.querySelectorAll(".svg-container")].map((one) => one.clientHeight);
          const paper = getComputedStyle(document.body).backgroundColor;
          window.seen = [wide(".main-svg"), wide("canvas"), Math.min(...high), paper];
        })"""
    )
    assert page.pdf().startswith(b"%PDF")
    plots, maps, high, paper = page.evaluate("window.seen")
    assert 600 < plots <= 681  # 18 cm
    assert maps <= 681
    assert high > 100  # nothing has collapsed
    assert paper == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"  # as it was before
    assert page.locator("#accuracy .main-svg").first.evaluate("of => of.clientWidth") > 1000


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
def test_headings_links_and_the_keyboard_lead_through_the_page(open_report, reported):
    page = open_report(reported)
    assert page.title() == page.locator("h1").inner_text() == 'Moves & <b>"mixes"</b>'
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        # Who has the focus has a visible outline.
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", reached
    assert reached[:2] == ["Skip to the results", "theme"]
    assert "accuracy (%)" in reached
    levels = page.locator("h1, h2, h3, h4").evaluate_all("found => found.map((heading) => Number(heading.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    goals = page.locator("nav a").evaluate_all("found => found.map((link) => link.hash.slice(1))")
    assert goals == page.locator("main section[id]").evaluate_all("found => found.map((section) => section.id)")
    page.locator("nav a").last.click()
    assert page.evaluate("location.hash") == "#making"
    page.evaluate("history.replaceState(null, '', '#metric=loss')")  # the view of a panel, which a link keeps
    page.locator("nav a").first.click()
    assert page.evaluate("location.hash") == "#metric=loss"
    assert page.locator("#results").evaluate("(goal) => goal.getBoundingClientRect().top") < 100


@long
def test_the_theme_button_changes_the_colours_of_page_and_charts(open_report, show_panel, reported):
    page = open_report(reported, scheme="light")
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
    assert page.evaluate("mdfl.visible('#e69f00')") == "#e69f00"  # light enough
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
    points = json.loads((folder / "summary.json").read_text())["points"]
    heading, texts = column(page, "final_accuracy")
    exact = [point["final_accuracy"] for point in points]
    assert texts == [f"{100 * of['mean']:.2f} ± {100 * of['ci95']:.2f}" for of in exact]
    assert heading.get_attribute("aria-sort") is None
    in_order = [text for _, text in sorted(zip([of["mean"] for of in exact], texts))]
    for press, (said, expected) in enumerate([("descending", in_order[::-1]), ("ascending", in_order), (None, texts)]):
        heading.get_by_role("button").press("Enter")
        assert heading.get_attribute("aria-sort") == said, press
        assert column(page, "final_accuracy")[1] == expected
    heading, _ = column(page, "rounds_to_target")
    for expected in (["100", "20", "9", "-"], ["9", "20", "100", "-"]):  # by number; what is missing stays at the end
        heading.get_by_role("button").click()
        assert column(page, "rounds_to_target")[1] == expected
    page.locator("thead button").first.click()
    assert page.locator("[aria-sort]").count() == 1  # only one heading is sorted
    names = [text.strip() for text in column(page, "network.mobility")[1]]
    assert names == sorted(names)


LENGTH = {"rounds": 4, "eval_every": 2, "seeds": 2, "engine.runs_per_batch": 0}
SHIPPED = {
    "digits": ({}, {"map", "contacts", "groups", "consensus"}),
    "fedmobile:f3_variants": ({"sweep": "algorithm.name=async_fl,fedmobile"}, {"map", "traffic"}),
}


@long
@pytest.mark.parametrize("name", SHIPPED)
def test_the_page_of_a_shipped_study_opens_and_has_its_numbers(open_report, show_all, tmp_path, name):
    changes, panels = SHIPPED[name]
    wanted = as_config(resolve.find(name))
    wanted.update_from_flattened_dict(LENGTH | changes)
    mdfl_jax.run(wanted, tmp_path / "run", progress=False)
    page = open_report(write_report(tmp_path / "run"), 800)
    assert panels <= show_all(page)
    points = json.loads((tmp_path / "run" / "summary.json").read_text())["points"]
    best = max(point["final_accuracy"]["mean"] for point in points)
    shown = [float(x) for x in re.findall(r"(-?\d+\.\d+) ±", page.locator("table").first.inner_text())]
    assert any(value == pytest.approx(100 * best, abs=0.0051) for value in shown)
    if "map" in panels:
        page.locator("section#map").get_by_role("button", name="Play").click()
        page.wait_for_function("() => document.querySelector('#map .chart').map.round >= 4")
