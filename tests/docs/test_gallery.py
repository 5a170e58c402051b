"""The gallery's page is the one that its script writes, with a picture for each study."""

from benchmarks import gallery


def test_the_page_is_current_and_has_its_pictures():
    assert gallery.PAGE.read_text() == gallery.page()
    assert {path.stem for path in gallery.PICTURES.iterdir()} == {entry.name for entry in gallery.GALLERY}
