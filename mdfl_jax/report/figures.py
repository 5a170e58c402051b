"""The figures of a study: all of them as PNG and PDF files, one of them for a paper, and any of them in Python.

All figures are `Figure` objects, without pyplot, so no global state changes. Two reports of the same workdir have the
same bytes.
"""

import io
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError, unknown_name, visible
from mdfl_jax.report.picture import mean_line
from mdfl_jax.report.registry import FIGURES, Panel, panels_in_order
from mdfl_jax.report.sheet import write_rows
from mdfl_jax.report.style import (
    COLUMN,
    PAGE,
    PAPER,
    STYLE,
    UNSTAMPED,
    looks,
    make_panels,
    of_width,
    save_picture,
)
from mdfl_jax.results.results import ROUNDS, VIEWS, Results
from mdfl_jax.storage import disk

_DPI = 150


def write_figures(study: Results, folder: Path) -> list[Path]:
    """Write NAME.png, .pdf and .csv for every figure that applies, and return the files.

    Files of figures that do not apply, which an earlier report may have left, are removed.
    """
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # at INFO it logs every embedded font
    written = []
    for name, panel in drawn_panels().items():
        png, pdf, csv = (folder / f"{name}.{ending}" for ending in ("png", "pdf", "csv"))
        if not panel.applies(study):
            for path in (png, pdf, csv):  # from an earlier report
                path.unlink(missing_ok=True)
            continue
        figure = draw_figure(study, name)
        disk.write_bytes(png, _bytes(figure, "png"))
        figure.set_layout_engine("none")  # the PNG file has fixed the layout
        disk.write_bytes(pdf, _bytes(figure, "pdf"))
        rows = _numbers_of(study, name)
        written += [png, pdf, *([write_rows(csv, rows)] if rows else [])]
    return written


def _numbers_of(study: Results, name: str) -> Sequence[Sequence[Any]] | None:
    """Return the numbers behind a figure that applies, as rows of a table; None if the figure does not give them."""
    with own_files.errors_in_one_line():
        return FIGURES[name].numbers(study)


def png_of(study: Results, name: str) -> bytes:
    """Return one figure of a study as the bytes of a PNG file, without writing it (`draw_figure`)."""
    return _bytes(draw_figure(study, name), "png")


def _bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as the bytes of a file."""
    file = io.BytesIO()
    for text in figure.findobj(Text):
        text.set_text(visible(text.get_text()))  # no font has control characters
    with matplotlib.style.context(["default", STYLE]):  # "default": the user's matplotlibrc has no effect
        figure.savefig(file, format=kind, dpi=_DPI, metadata=UNSTAMPED[f".{kind}"])
    return file.getvalue()


def drawn_panels() -> dict[str, Panel]:
    """Return the panels that are drawn for files, by name, in their order on the page."""
    return {name: panel for name, panel in panels_in_order().items() if panel.is_drawn}


def applying(study: Results) -> list[str]:
    """Return the names of the figures that apply to a study, in their order on the page."""
    return [name for name, panel in drawn_panels().items() if panel.applies(study)]


def draw_figure(study: Results, name: str) -> Figure:
    """Draw one figure of a study, without writing it.

    Raises:
      UserError: if there is no such figure, or if the study has not recorded what it shows.
    """
    panel = FIGURES[name]
    if not panel.is_drawn or not panel.applies(study):
        why = "the study has not recorded what it shows" if panel.is_drawn else "it is on the page only"
        raise UserError(f"figure {name!r}: {why}; there are {', '.join(applying(study))}")
    with own_files.errors_in_one_line(), matplotlib.style.context(["default", STYLE]):
        return panel.draw(study)


WIDTHS = {"column": COLUMN, "page": PAGE}
NARROWEST, WIDEST = 2.0, 40.0  # inches
NUMBERS = ".csv"


def width_in_inches(width: str) -> float:
    """Return a width of a figure in inches, of "column", "page" or a number of inches.

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


def list_figures(study: Results) -> list[tuple[str, str]]:
    """Return the names of the figures that apply to a study, each with the first line of its description."""
    return [(name, (FIGURES[name].__doc__ or "").split("\n")[0]) for name in applying(study)]


def check_figure(study: Results, name: str, path: Path) -> None:
    """Check that a figure can be made and that its file can be written, before anything is drawn.

    Raises:
      UserError: if there is no such figure, if it does not apply to the study, if the file has another ending, or if
        its folder does not exist.
    """
    if path.suffix not in (*UNSTAMPED, NUMBERS):
        raise UserError(f"--to={path}: it must end in {', '.join((*UNSTAMPED, NUMBERS))}")
    known = applying(study)
    if name not in known:
        if name in drawn_panels():
            why = "this study has not recorded what it shows"
            raise UserError(f"--figure={name}: {why}; there are {', '.join(known)}")
        raise UserError(f"--figure={name}: {unknown_name('figure', name, known)}; one of your own needs --use=FILE")
    if path.is_dir() or not path.parent.is_dir():
        what = "it is a folder" if path.is_dir() else f"there is no folder {str(path.parent)!r}"
        raise UserError(f"--to={path}: {what}")


def save_figure(study: Results, name: str, path: Path, width: float) -> None:
    """Save one figure with a width in inches, or the numbers behind it. Two files of a figure have the same bytes.

    Raises:
      UserError: as `check_figure`, if the figure does not give its numbers, or if the file cannot be written.
    """
    check_figure(study, name, path)
    if path.suffix == NUMBERS:
        rows = _numbers_of(study, name)
        if rows is None:
            raise UserError(f"--to={path}: figure {name!r} does not give the numbers behind it")
        write_rows(path, rows)
        return
    save_picture(lambda: draw_for_paper(study, name, width), [path], "to", PAPER)


def draw_for_paper(study: Results, name: str, width: float) -> Figure:
    """Draw one figure as wide as it is asked for, in the style of a paper, which the caller has set."""
    with own_files.errors_in_one_line(), of_width(width):
        figure = FIGURES[name].draw(study)
    before, height = figure.get_size_inches()
    figure.set_size_inches(width, height * min(1.0, max(0.7, width / before)))
    return figure


class UnknownFigureError(UserError, AttributeError):
    """There is no figure of this name. It is an AttributeError too, as Python expects of a missing attribute."""


@VIEWS.register("plot")
class Plots:
    """The figures of a study. Every figure of the report is a method: ``results.plot.final_accuracy()``.

    ``list(results.plot)`` has the names of the figures that apply to the study. A method takes ``x``, the x axis of the
    accuracy curves (`Results.report`), and returns a Matplotlib `Figure`, which has `savefig`.
    """

    def __init__(self, results: Results):
        self._results = results

    def __iter__(self) -> Iterator[str]:
        return iter(["curves", *applying(self._results.shown(""))])

    def __dir__(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        docs = dict(list_figures(self._results.shown("")))
        lines = ["curves(metric='accuracy', x='round', ax=None): Draws a metric of every sweep point as a curve."]
        return "\n".join(["The figures of this study:", *lines, *(f"{name}(): {doc}" for name, doc in docs.items())])

    def __getattr__(self, name: str) -> Callable[..., Figure]:
        """Return the method that draws a figure of the report."""
        if name.startswith("_") or name not in drawn_panels():
            raise UnknownFigureError(unknown_name("figure", name, ["curves", *drawn_panels()]))

        def draw(x: str = "") -> Figure:
            return draw_figure(self._results.shown(x), name)

        draw.__name__, draw.__doc__ = name, FIGURES[name].__doc__
        return draw

    def curves(self, metric: str = "accuracy", x: str = "round", ax: Any = None) -> Figure:
        """Draw a metric of every sweep point as a curve: the mean over the seeds and its 95 % Student-t interval.

        Args:
          metric: a metric with one number for each evaluation of a run, as in metrics.jsonl: 'consensus_distance', or
            'accuracy' (the mean over the clients), 'accuracy_min', ...
          x: the x axis: 'round', or such a metric, of which the mean over the seeds is taken: 'bits', 'messages', ...
          ax: the Matplotlib axes to draw into; None: a new figure.

        Raises:
          UserError: for a metric that is unknown or was not measured; the message lists the known ones.
        """
        if ax is not None:
            self._draw_curves(ax, metric, x)
            ax.legend()
            return ax.figure
        with matplotlib.style.context(["default", STYLE]):
            drawn, (axes,) = make_panels(1, 1, 7.2, 3.9)
            self._draw_curves(axes, metric, x)
            drawn.legend(loc="outside right upper", alignment="left")
        return drawn

    def _draw_curves(self, axes: Any, metric: str, x: str) -> None:
        study = self._results.shown("")
        measured = list(dict.fromkeys(key for curve in study.curves.values() for key in curve.values))
        key = study.key_of(metric, measured)
        along = None if x in ("round", ROUNDS) else study.key_of(x, measured)
        (title, scale), (x_title, x_scale) = self._shown(key), self._shown(along or "round")
        for p, look in enumerate(looks(study)):
            curve = study.curve(p).of_results  # a run that has diverged is in no mean
            if {key, along or key} <= curve.values.keys() and not np.isnan(curve.values[key]).all():
                at = curve.values[along].mean(axis=0) / x_scale if along else curve.rounds
                line = mean_line(look.label, (look.colour, look.dash), at, curve.values[key] / scale)
                line.draw(axes, in_rows=False).set_label(look.label)
        axes.set_xlabel(x_title)
        axes.set_ylabel(title)
        axes.margins(x=0.01)

    def _shown(self, key: str) -> tuple[str, float]:
        """Return the title of a key of metrics.jsonl, and what its values are divided by."""
        shown = self._results.declared.get(key)
        return (shown.title, shown.scale) if shown else (key.replace("_", " "), 1.0)
