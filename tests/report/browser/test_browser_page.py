"""The page in a browser: it opens without error or request, in both themes, at each width, and works by keyboard."""

import itertools
import json

import pytest

from tests.report.browser.pages import by_axe, write_page

long = pytest.mark.long


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(1400, "light"), *(pytest.param(w, s, marks=long) for w, s in [(360, "dark"), (800, "light"), (1400, "dark")])],
)
def test_a_report_opens_and_draws_its_panels(open_report, show_all, synthetic, width, scheme):
    page = open_report(synthetic, width, scheme)
    assert {"final_accuracy", "label_counts"} <= show_all(page)
    assert page.title() == page.locator("h1").inner_text() == 'Moves & <b>"mixes"</b>'


ROADSIDE = {"server.pattern": "roadside", "server.units": "2,2; 8,8", "server.unit_range": 2.5}
GRID = [
    {"network.mobility": name, "network.radius": radius} for name in ("static", "dcm") for radius in (1.0, 2.0, 4.0)
]
KINDS = {
    "one point, one seed": ([{}], {"seeds": 1}),
    "two axes": (GRID, {}),
    "road-side units": ([ROADSIDE], {}),
    "markup": ([{"data.name": name} for name in ("</script><img src=x onerror=alert(1)>", "<b>$x_1$</b>")], {}),
    "two hundred points": ([{"algorithm.lr": (i + 1) / 1000} for i in range(200)], {"seeds": 2, "positions": False}),
}


def test_the_browser_refuses_what_the_page_does_not_hold(browser, synthetic):
    page = browser.new_page()
    page.goto(synthetic.as_uri())
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
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_study_opens_on_a_phone(make_workdir, open_report, show_all, kind):
    sweep, options = KINDS[kind]
    page = open_report(write_page(make_workdir(sweep, **options)), 360, "dark")
    show_all(page)
    assert page.locator("main img").count() == 0  # no panel has only a picture, and no text has become an element


@long
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (360, "light")])
def test_axe_finds_no_serious_fault(open_report, show_all, synthetic, width, scheme):
    pytest.importorskip("axe_playwright_python")
    page = open_report(synthetic, width, scheme)
    show_all(page)
    assert by_axe(page) == {}
    page.locator("#theme").click()
    assert by_axe(page) == {}
    page.evaluate("document.querySelector('.note').style.color = 'var(--rule)'")
    assert set(by_axe(page)) == {"color-contrast"}  # so axe would have told


@long
def test_headings_and_links_lead_through_the_page(open_report, synthetic):
    page = open_report(synthetic)
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
def test_the_keyboard_reaches_the_controls_and_the_first_stop_skips_to_the_results(open_report, synthetic):
    page = open_report(synthetic)
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        # Who has the focus has a visible outline.
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", reached
    assert reached[:2] == ["Skip to the results", "theme"]
    assert "accuracy (%)" in reached
    assert page.evaluate("document.activeElement !== document.body")


@long
def test_the_theme_button_changes_the_colours_of_page_and_charts(open_report, show_panel, show_all, synthetic):
    page = open_report(synthetic, scheme="light")
    show_panel(page, "final_accuracy")
    colours = """() => [getComputedStyle(document.body).backgroundColor,
      document.querySelector('#final_accuracy .chart').layout.font.color]"""
    light = page.evaluate(colours)
    page.locator("#theme").press("Enter")
    page.wait_for_function("() => document.querySelector('#final_accuracy .chart').layout.font.color === '#e6e9ed'")
    dark = page.evaluate(colours)
    assert light == ["rgb(255, 255, 255)", "#1d2126"]
    assert dark == ["rgb(21, 24, 28)", "#e6e9ed"]
    page.emulate_media(media="print")  # prints have the light colours, whatever the reader has chosen
    page.wait_for_function("() => document.querySelector('#final_accuracy .chart').layout.font.color === '#1d2126'")
    assert page.evaluate(colours) == light
    assert page.locator("nav").is_hidden()
    show_all(page)
    shown = page.locator(".tools").evaluate_all("found => found.map((tools) => getComputedStyle(tools).display)")
    assert len(shown) >= 3  # of the curves and of the map
    assert set(shown) == {"none"}


@long
def test_a_colour_is_lightened_until_it_can_be_seen_in_the_dark(open_report, synthetic):
    page = open_report(synthetic, scheme="dark")
    assert page.evaluate("mdfl.visible('#440154')") != "#440154"
    assert page.evaluate("mdfl.visible('#e69f00')") == "#e69f00"  # light enough
    page.emulate_media(color_scheme="light")
    assert page.evaluate("mdfl.visible('#440154')") == "#440154"


# A clipboard in place of the browser's, which keeps what it is given, by what it answers.
CLIPBOARD = """Object.defineProperty(navigator, "clipboard", {
  value: { writeText: (text) => { window.given = text; return ANSWER; } } });"""
ANSWERS = {"Promise.resolve()": "Copied", "Promise.reject('no')": "Selected", "new Promise(() => null)": "Selected"}


@long
@pytest.mark.parametrize("answer", ANSWERS)
def test_the_command_is_selected_at_once_and_copied_where_the_browser_lets_it(open_report, synthetic, answer):
    page = open_report(synthetic, script=CLIPBOARD.replace("ANSWER", answer))
    button = page.locator("dd.copied button").first
    assert button.get_attribute("aria-label") == "Copy the command"
    at_once = button.evaluate("(button) => { button.click(); return [button.textContent, String(getSelection())]; }")
    manifest = json.loads((synthetic.parent / "config.json").read_text())
    assert at_once == ["Selected", manifest["command"]]
    assert page.evaluate("window.given") == manifest["command"]
    page.wait_for_timeout(50)  # for what a page does after an answer
    assert button.inner_text() == ANSWERS[answer]
