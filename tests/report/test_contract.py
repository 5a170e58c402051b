"""What holds for every registered panel and every kind of study: the page, the figures and what they say."""

import json
import re
from html.parser import HTMLParser

import matplotlib.style
import pytest
from matplotlib.text import Text

from mdfl_jax.report import figures
from mdfl_jax.report.registry import FIGURES, panels_in_order, script_json
from mdfl_jax.report.style import PAPER
from mdfl_jax.results.results import Results
from tests.report.kinds import HOSTILE, KINDS, every_panel

IN_ORDER = panels_in_order().items()
BUILT_IN = [  # "studies" is of a comparison: tests/contrib/comparison
    name for name, panel in IN_ORDER if panel.__module__.startswith("mdfl_jax.report.") and name != "studies"
]


class Tags(HTMLParser):
    """Collects the tags and the addresses of a page, and checks that each tag is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_whole_holds_all_it_needs_and_escapes_every_text(folder_of, kind):
    text = (folder_of(kind) / "report.html").read_text(encoding="utf-8")
    tags, outside = Tags(text), re.sub(r"(?s)(<script[^>]*>).*?(</script>)", r"\1\2", text)
    assert not tags.open
    assert "<img" not in outside  # no panel has only a picture, and no text has become an element
    assert all(address.startswith("#") for address in tags.addresses)
    assert not re.search(r"https?://|@import|url\(", outside.replace(HOSTILE, ""))
    assert len(text) < 6e6
    assert "None" not in outside
    if kind == "every panel":
        assert outside.count("&lt;/script&gt;&lt;img src=x") > 30


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return Results.read(every_panel(tmp_path_factory.mktemp("full"))).shown()


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_panel_has_a_caption_a_chart_and_a_figure_for_a_paper(full, name):
    panel = FIGURES[name]
    assert panel.applies(full)
    assert re.fullmatch(r"[A-Z](?s:.*)\.", panel.caption(full))
    assert json.loads(script_json(panel.chart(full).data))
    header, *rows = panel.numbers(full)
    assert rows
    assert {len(row) for row in rows} == {len(header)}
    with matplotlib.style.context(["default", PAPER]):
        drawn = figures.draw_for_paper(full, name, 3.5)
    assert drawn.get_figwidth() == 3.5
    assert max(text.get_fontsize() for text in drawn.findobj(Text) if text.get_text()) <= 8
    assert dict(figures.list_figures(full))[name].startswith("Draw ")
