"""Saves one figure of a study for a paper: PNG, PDF or SVG, as wide as a column or a page, in one style."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.text import Text

from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.report.figures import applying
from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import FIGURES, drawn_in_order
from mdfl_jax.report.style import COLUMN, PAGE, PAPER, of_width

WIDTHS = {"column": COLUMN, "page": PAGE}
NARROWEST, WIDEST = 2.0, 40.0  # inches
PICTURES: dict[str, dict[str, Any]] = {  # the metadata that would make two files of the same figure differ
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}
MOVIES = (".gif", ".mp4")
NARROW = 5.0  # a narrower figure has its legend above or below
LETTER, HANDLE, LINE = 0.062, 0.5, 0.16  # inches: of a letter, of the line beside a label, and of a line of a legend


def inches(width: str) -> float:
    """Return a width of a figure in inches.

    Args:
      width: "column", "page" or a number of inches.

    Raises:
      UserError: for another text.
    """
    try:
        found = WIDTHS[width] if width in WIDTHS else float(width)
    except ValueError:
        found = 0.0
    if not NARROWEST <= found <= WIDEST:
        raise UserError(
            f"--width={width}: it must be column ({COLUMN} inches), page ({PAGE}) or a number of inches from"
            f" {NARROWEST:g} to {WIDEST:g}"
        )
    return found


def listed(run: Run) -> list[tuple[str, str]]:
    """Return the names of the figures that apply to a study, each with the first line of its description."""
    return [(name, (FIGURES[name].__doc__ or "").split("\n")[0]) for name in applying(run)]


def check(run: Run, name: str, path: Path) -> None:
    """Check that a figure can be made and that its file can be written, before anything is drawn.

    Raises:
      UserError: if there is no such figure, if it does not apply to the study, if the file has another ending, or if
        its folder does not exist.
    """
    if path.suffix in MOVIES:
        if name != "map":
            raise UserError(f"--to={path}: only the map moves; {name} is saved as {', '.join(PICTURES)}")
    elif path.suffix not in PICTURES:
        raise UserError(f"--to={path}: it must end in {', '.join(PICTURES)}, or for the map in {' or '.join(MOVIES)}")
    known = applying(run)
    if name not in known:
        if name in drawn_in_order():
            why = "this study has not recorded what it shows"
            raise UserError(f"--figure={name}: {why}; there are {', '.join(known)}")
        raise UserError(f"--figure={name}: {unknown_name('figure', name, known)}")
    if path.is_dir() or not path.parent.is_dir():
        what = "it is a folder" if path.is_dir() else f"there is no folder {str(path.parent)!r}"
        raise UserError(f"--to={path}: {what}")


def save(run: Run, name: str, path: Path, width: float) -> None:
    """Save one figure. Two files of the same figure have the same bytes.

    Args:
      run: the study.
      name: the name of the figure.
      path: the file; its ending is that of a picture.
      width: the width in inches.

    Raises:
      UserError: as `check`, or if the file cannot be written.
    """
    check(run, name, path)
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # at INFO it logs every embedded font
    with matplotlib.style.context(["default", PAPER]):
        figure = draw(run, name, width)
        try:
            figure.savefig(path, metadata=PICTURES[path.suffix])
        except OSError as error:
            raise UserError(f"--to={path}: cannot be written: {error.strerror or error}") from None


def draw(run: Run, name: str, width: float) -> Figure:
    """Draw one figure as wide as it is asked for, with text of one size and a legend that has room."""
    panel_draw = FIGURES[name].draw
    assert panel_draw is not None
    with own_files.errors_in_one_line(), of_width(width):
        figure = panel_draw(run)
    before, height = figure.get_size_inches()
    size = float(matplotlib.rcParams["font.size"])
    for text in figure.findobj(Text):
        # Numbers within cells and marks become smaller with the figure; all other texts have the size of the style.
        before_size = float(text.get_fontsize())
        small = max(4.0, before_size * min(1.0, width / before))
        text.set_fontsize(small if before_size < 7 else min(before_size, size))
    height *= min(1.0, max(0.7, width / before))
    for legend in list(figure.legends) if width < NARROW else ():
        labels = [text.get_text() for text in legend.get_texts()]
        columns = _columns(labels, width)
        title = legend.get_title().get_text() or None
        handles = [handle for handle in legend.legend_handles if handle is not None]
        legend.remove()
        side = "lower" if figure.get_suptitle() else "upper"  # away from the figure's title, or from its x label
        place: dict[str, Any] = {"loc": f"outside {side} center", "ncols": columns, "columnspacing": 1.0}
        figure.legend(handles, labels, title=title, **place)
        height += LINE * (-(-len(labels) // columns) - 1)
    figure.set_size_inches(width, height + _narrowed(figure, width))
    return figure


def _narrowed(figure: Figure, width: float) -> float:
    """Give the legends of single panels fewer columns where they are wider than their panel.

    Returns:
      By how much the figure must become higher, in inches.
    """
    higher = 0.0
    for axes in figure.axes:
        legend, place = axes.get_legend(), axes.get_subplotspec()
        if legend is None or place is None:
            continue
        labels = [text.get_text() for text in legend.get_texts()]
        columns = _columns(labels, 0.7 * width / place.get_gridspec().ncols)  # the labels of its y axis take the rest
        if columns < len(labels):
            handles = [handle for handle in legend.legend_handles if handle is not None]
            axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0)
            higher += LINE * -(-len(labels) // columns)
    return higher


def _columns(labels: Sequence[str], width: float) -> int:
    """Return the number of columns of a legend whose labels fit a width in inches."""
    longest = max((len(label) for label in labels), default=1)
    return max(1, min(len(labels), int(width / (HANDLE + LETTER * longest))))
