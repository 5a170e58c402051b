"""Pages are those that scripts write: the figures of the results files in marked places, and the gallery."""

import pytest

from benchmarks import gallery, quote, quoted
from mdfl_jax.cli import common

ROWS = ["| a | b |", "| :-- | --: |", "| 1 | 2 |"]
PAGE = "# A page\n\n<!-- figures: of_page -->\n{}\n<!-- /figures -->\n\nIt takes 43 s.\n"
OLD, NEW = PAGE.format("| a | b |"), PAGE.format("\n".join(ROWS))
WRONG = {
    "<!-- figures: arena_digits, setting -->\n<!-- /figures -->": "unknown table of arena_digits 'setting' (did you",
    "<!-- figures: fedmobile:f99, upload -->\n<!-- /figures -->": "there is no such results file",
    "<!-- figures: of_pages -->\n<!-- /figures -->": "unknown table 'of_pages' (did you mean",
    "<!-- figures: of_page -->\n| a |": "must be followed by <!-- /figures -->",
    "| a |\n<!-- /figures -->": "<!-- /figures --> ends nothing",
}


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(quote, "TABLES", {"of_page": lambda: ROWS})
    return tmp_path / "page.md"


def test_every_page_has_the_figures_of_the_results_files_and_every_table_is_on_one():
    stale = [str(page) for page in quote.pages() if quote.rewritten(page) != page.read_text()]
    assert not stale, "python -m benchmarks.quote writes them"
    marked = [marker for page in quote.pages() for marker in quote.MARKER.finditer(page.read_text())]
    tables = {marker["table"] for marker in marked} - {None}
    assert {name for name in tables if ":" not in name and not name.startswith("arena_")} == set(quote.TABLES)


def test_the_gallery_is_current_and_has_its_pictures():
    assert gallery.PAGE.read_text() == gallery.page()
    assert {path.stem for path in gallery.PICTURES.iterdir()} == {entry.name for entry in gallery.GALLERY}


def test_tables_are_written_and_a_check_writes_nothing(page, capsys):
    for text, check, after in ((OLD, True, OLD), (OLD, False, NEW), (NEW, False, NEW), (NEW, True, NEW)):
        page.write_text(text)
        assert quote.update([page], check) == int(check and text == OLD)
        assert page.read_text() == after
        assert capsys.readouterr().out == ("" if text == NEW else f"{page}\n")


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_one_line_and_nothing_is_written(text, page, capsys):
    other = page.with_name("other.md")
    other.write_text(OLD)
    page.write_text(text)
    with pytest.raises(SystemExit) as stopped:
        common.call(lambda: quote.update([other, page], check=False))
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {page}:")
    assert WRONG[text] in line
    assert other.read_text() == OLD


def test_digits():
    expected = {
        (209.486, 3, 99): "209", (157.0, 2, 99): "160", ("0.045", 3, 2): "0.05", ("0.4", 4, 2): "0.40",
        (0.9996, 3, 99): "1.00", (99.96, 3, 99): "100", (0.0, 3, 2): "0.00", (-2.5, 9, 0): "-3",
    }  # fmt: skip
    assert {given: quoted.digits(*given) for given in expected} == expected
