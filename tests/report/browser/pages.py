"""What the tests in a browser ask a page."""

from typing import Any


def fits(page: Any) -> bool:
    """Whether nothing is wider than the screen: the page needs no sideways scrolling."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def by_axe(page: Any, context: str | None = None) -> dict[str, str]:
    """The serious faults that axe-core finds in a page, or in what a selector chooses of it."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, context=context).response
    assert len(found["passes"]) > 10  # it has looked at the page
    return {fault["id"]: fault["help"] for fault in found["violations"] if fault["impact"] in ("serious", "critical")}


def of_map(page: Any, name: str) -> Any:
    """An entry of what the map of a page tells of itself, such as `round`."""
    return page.evaluate(f"element.map.{name}")


def pixels(page: Any, view: int = 0) -> str:
    """The picture of a map as a text, to tell whether it has changed."""
    return page.evaluate(f"document.querySelectorAll('#map canvas')[{view}].toDataURL()")
