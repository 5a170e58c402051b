"""Pages are those that scripts write: the figures of the results files in marked places, and the gallery."""

from benchmarks import gallery, quote


def test_every_page_has_the_figures_of_the_results_files_and_every_table_is_on_one():
    stale = [str(page) for page in quote.pages() if quote.rewritten(page) != page.read_text()]
    assert not stale, "python -m benchmarks.quote writes them"
    marked = [marker for page in quote.pages() for marker in quote.MARKER.finditer(page.read_text())]
    tables = {marker["table"] for marker in marked} - {None}
    assert {name for name in tables if ":" not in name and not name.startswith("arena_")} == set(quote.TABLES)


def test_the_gallery_is_current_and_has_its_pictures():
    assert gallery.PAGE.read_text() == gallery.page()
    assert {path.stem for path in gallery.PICTURES.iterdir()} == {entry.name for entry in gallery.GALLERY}
