"""The served page in a browser: it refreshes itself when the study has grown, and stays as the reader has left it."""

import json
import threading

import pytest

from mdfl_jax.report import page as pages
from mdfl_jax.report import serve as serving
from mdfl_jax.report.read import read_workdir


@pytest.fixture
def served(make_workdir, monkeypatch):
    """(the address, the workdir) of a synthetic study whose page is served in this process."""
    monkeypatch.setattr(serving, "SHARE", 1.0)
    monkeypatch.setattr(serving, "REST", 0.0)
    workdir = make_workdir()
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
        yield f"http://127.0.0.1:{server.server_port}/", workdir
        over.set()
        server.shutdown()
        for thread in threads:
            thread.join()


@pytest.mark.long
def test_it_refreshes_itself_and_keeps_what_the_reader_has_chosen(browser, served):
    address, workdir = served
    context = browser.new_context(viewport={"width": 1000, "height": 700}, color_scheme="light")
    context.set_default_timeout(60_000)
    page, troubles = context.new_page(), []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: said.type == "error" and troubles.append(said.text))
    page.on("request", lambda asked: asked.url.startswith((address, "data:", "blob:")) or troubles.append(asked.url))
    page.goto(address)
    page.wait_for_selector("#live:has-text('This page follows the study')")
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
    page.evaluate("window.before = true")

    manifest = json.loads((workdir / "config.json").read_text())
    (workdir / "config.json").write_text(json.dumps(manifest | {"title": "One seed more"}))
    page.wait_for_function("() => !window.before && document.querySelector('h1')?.textContent === 'One seed more'")
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
    context.close()
    assert troubles == []
