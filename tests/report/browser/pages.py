"""Pages that the tests in a browser open, and what they look at."""

from pathlib import Path
from typing import Any

from mdfl_jax.report.page import render
from mdfl_jax.report.read import ReportData, read_workdir


def write_page(study: Path | ReportData) -> Path:
    """Writes report.html alone into the folder of a study, and returns the folder."""
    run = study if isinstance(study, ReportData) else read_workdir(study)
    (run.workdir / "report.html").write_text(render(run), encoding="utf-8")
    return run.workdir


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
