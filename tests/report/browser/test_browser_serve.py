"""The served page in a browser: it refreshes itself when the study has grown, and stays as the reader has left it."""

import json
import threading
from contextlib import ExitStack, contextmanager

import pytest

from mdfl_jax.report import page as pages
from mdfl_jax.report import serve as serving
from mdfl_jax.report.read import read_workdir

pytestmark = pytest.mark.long


@contextmanager
def served_in_this_process(workdir):
    """The address of the page of a study, which is made again at once when its files change."""
    files = [workdir / name for name in ("config.json", "summary.json", "metrics.jsonl", "history.npz")]
    page = serving.LivePage(lambda: pages.render(read_workdir(workdir)), lambda: files)
    page.make()
    over = threading.Event()

    def follow():
        while not over.wait(0.1):
            page.make_if_due()

    with serving._Server(page, 0) as server:
        threads = [threading.Thread(target=server.serve_forever), threading.Thread(target=follow)]
        for thread in threads:
            thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        over.set()
        server.shutdown()
        for thread in threads:
            thread.join()


@pytest.fixture
def open_served(make_workdir, monkeypatch, request):
    """Returns open_served(*args, **options) -> (the page, the workdir) of a synthetic study whose page is served."""
    monkeypatch.setattr(serving, "SHARE", 1.0)
    monkeypatch.setattr(serving, "REST", 0.0)
    with ExitStack() as servers:
        open_report = request.getfixturevalue("open_report")  # its pages are closed before the servers end

        def opened(*args, **options):
            workdir = make_workdir(*args, **options)
            page = open_report(servers.enter_context(served_in_this_process(workdir)), 1000, height=700)
            page.set_default_timeout(60_000)
            page.wait_for_selector("#live:has-text('This page follows the study')")
            page.evaluate("window.before = true")
            return page, workdir

        yield opened


def refresh(page, workdir, title):
    """Changes the title of the study, and waits for the page that has it."""
    manifest = json.loads((workdir / "config.json").read_text())
    (workdir / "config.json").write_text(json.dumps(manifest | {"title": title}))
    page.wait_for_function("title => !window.before && document.querySelector('h1')?.textContent === title", arg=title)


def test_it_refreshes_itself_and_keeps_what_the_reader_has_chosen(open_served):
    page, workdir = open_served()
    page.locator("section#map").scroll_into_view_if_needed()
    page.wait_for_function("() => document.getElementById('map').dataset.state === 'drawn'")
    choice, rounds = page.locator("#map select").nth(1), page.locator("#map input[type=range]")
    values = choice.locator("option").evaluate_all("options => options.map((option) => option.value)")
    choice.select_option(values[1])
    rounds.fill("12")
    page.locator("#accuracy input[name=logy]").evaluate("box => box.click()")
    page.locator("#theme").evaluate("button => button.click()")
    theme = page.evaluate("document.documentElement.dataset.theme")
    top = page.locator("section#map").evaluate("panel => panel.getBoundingClientRect().top")
    assert page.evaluate("scrollY") > 100
    refresh(page, workdir, "One seed more")
    page.wait_for_function(
        "value => document.querySelectorAll('#map select')[1]?.value === value"
        " && document.querySelector('#map input[type=range]').value === '12'"
        " && document.querySelector('#accuracy input[name=logy]')?.checked",
        arg=values[1],
    )
    assert page.evaluate("document.documentElement.dataset.theme") == theme == "dark"
    page.wait_for_function(
        "top => Math.abs(document.getElementById('map').getBoundingClientRect().top - top) < 40", arg=top
    )
    (workdir / "summary.json").write_text("{")  # as if it were written just now
    page.wait_for_selector("#live:has-text('The page stays as it was')")
    assert page.locator("h1").inner_text() == "One seed more"
