"""Reports in a real browser: Debian's chromium, driven by Playwright, opens the file from the disk.

A test asks for `open_report` and opens a report with it; the test fails if the page logs an error, throws one, or asks
for anything but its own file. `show_panel` scrolls to a panel and waits until it is drawn.
"""

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Opener = Callable[..., Any]  # the classes of playwright are known only where it is installed
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WAIT = 20_000  # milliseconds: busy cores may need seconds for what takes a tenth of one on idle cores


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
    """Returns open_report(path, width=1200, scheme="light", height=900, fragment="", **options) -> a Playwright page.

    The path is that of report.html or of the folder that holds it; options are those of `Browser.new_context`. When the
    test ends, it fails if a page has logged an error or a warning, thrown an error, or requested anything but its file.
    """
    contexts, troubles = [], []

    def opened(
        path: Path, width: int = 1200, scheme: str = "light", height: int = 900, fragment: str = "", **options: Any
    ) -> Any:
        file = path / "report.html" if path.is_dir() else path
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, color_scheme=scheme, **options)
        contexts.append(context)
        context.set_default_timeout(WAIT)
        page = context.new_page()
        page.on("console", lambda said: said.type in ("error", "warning") and troubles.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        own = (file.resolve().as_uri(), "data:", "blob:")
        page.on("request", lambda asked: asked.url.startswith(own) or troubles.append(f"request: {asked.url}"))
        page.goto(file.resolve().as_uri() + fragment)
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
