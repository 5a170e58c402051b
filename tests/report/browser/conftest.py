"""Reports in a real browser: Debian's chromium, driven by Playwright, opens the file from the disk.

A test asks for `open_report` and opens a report with it; the test fails if the page logs an error, throws one, or asks
for anything but its own file. `show_panel` scrolls to a panel and waits until it is drawn; `show_all` does so for all.
"""

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.browser.pages import fits

Opener = Callable[..., Any]  # the classes of playwright are known only where it is installed
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WAIT = 60_000  # milliseconds: busy cores may need a minute for what takes a second on idle cores


@pytest.fixture(scope="module")  # not the session: while Playwright runs, asyncio.run fails in this thread
def browser() -> Iterator[Any]:
    """One browser for the tests of a module; the tests are skipped with one line where there is none."""
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("playwright is not installed; pip install -e '.[test]' brings it")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("chromium is not installed; Debian's package is chromium (make test installs it if it may)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Without a sandbox, since tests may run as root in a container; the pages are our own.
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture
def open_report(browser: Any) -> Iterator[Opener]:
    """Returns open_report(path, width=1200, scheme="light", height=900, fragment="", script="", moves=False) -> a page.

    The path is that of report.html or of its folder, or an address; the script runs before those of the page. When the
    test ends, it fails if a page has logged an error or a warning, thrown an error, or asked for anything but its own.
    """
    contexts, troubles = [], []

    def opened(
        path: Path | str,
        width: int = 1200,
        scheme: str = "light",
        height: int = 900,
        fragment: str = "",
        script: str = "",
        moves: bool = False,
    ) -> Any:
        if isinstance(path, Path):
            path = (path / "report.html" if path.is_dir() else path).resolve().as_uri()
        view = {"width": width, "height": height}
        motion = "no-preference" if moves else "reduce"  # the map plays of itself
        context = browser.new_context(viewport=view, color_scheme=scheme, reduced_motion=motion)
        contexts.append(context)
        context.set_default_timeout(WAIT)
        context.add_init_script(script)
        page = context.new_page()
        page.on("console", lambda said: said.type in ("error", "warning") and troubles.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        own = (path, "data:", "blob:")
        page.on("request", lambda asked: asked.url.startswith(own) or troubles.append(f"request: {asked.url}"))
        page.goto(path + fragment)
        page.wait_for_selector("html[data-state=ready]", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def show_panel() -> Callable[[Any, str], Any]:
    """Returns show_panel(page, name) -> the locator of a panel that is in view and drawn."""

    def shown(page: Any, name: str) -> Any:
        section = page.locator(f"section#{name}")
        section.scroll_into_view_if_needed()
        page.wait_for_function("name => /drawn|failed/.test(document.getElementById(name).dataset.state)", arg=name)
        assert section.get_attribute("data-state") == "drawn", section.locator(".chart").inner_text()
        return section

    return shown


@pytest.fixture
def show_all(show_panel: Callable[[Any, str], Any]) -> Callable[[Any], set[str]]:
    """Returns show_all(page) -> the names of the panels, which are all drawn; none of them widens the page."""

    def shown(page: Any) -> set[str]:
        names = page.locator("section.panel[data-kind]").evaluate_all("found => found.map((panel) => panel.id)")
        for name in names:
            show_panel(page, name)
        assert fits(page)
        return set(names)

    return shown


@pytest.fixture
def recorded(folder_of: Callable[[str], Path]) -> Path:
    """A study of four points, twelve clients and forty rounds, with all records of the rounds, and its page."""
    return folder_of("records")


@pytest.fixture
def open_map(open_report: Opener, show_panel: Callable[[Any, str], Any], recorded: Path) -> Opener:
    """Returns open_map(width, scheme, folder) -> (the page, the section of its map, in scripts `element`)."""

    def opened(width: int = 1200, scheme: str = "light", folder: Path = recorded) -> Any:
        page = open_report(folder, width, scheme)
        section = show_panel(page, "map")
        page.evaluate("window.element = document.querySelector('#map .chart')")
        return page, section

    return opened
