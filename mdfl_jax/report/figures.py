"""Writes the figures of a study as PNG and PDF files.

All figures are `Figure` objects, without pyplot, so no global state changes. Two reports of the same workdir have the
same bytes.
"""

import io
import logging
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError
from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import FIGURES, drawn_in_order
from mdfl_jax.report.style import STYLE
from mdfl_jax.storage import disk

DPI = 150
_SAVED: dict[str, dict[str, Any]] = {  # without the time and the program that made the file
    "png": {"dpi": DPI, "metadata": {"Software": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}


def write(run: Run) -> dict[str, Path]:
    """Write figures/NAME.png and figures/NAME.pdf for every figure that applies to the study.

    Files of figures that do not apply, which an earlier report may have left, are removed.

    Returns:
      The paths of the PNG files by the name of the figure.
    """
    folder = run.workdir / "figures"
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # at INFO it logs every embedded font
    written = {}
    with matplotlib.style.context(["default", STYLE]):  # "default": the user's matplotlibrc has no effect
        for name, draw in drawn_in_order().items():
            png, pdf = folder / f"{name}.png", folder / f"{name}.pdf"
            if not FIGURES[name].applies(run):
                png.unlink(missing_ok=True)  # from an earlier report
                pdf.unlink(missing_ok=True)
                continue
            with own_files.errors_in_one_line():
                figure = draw(run)
            disk.write_bytes(png, _bytes(figure, "png"))
            figure.set_layout_engine("none")  # the PNG file has fixed the layout
            disk.write_bytes(pdf, _bytes(figure, "pdf"))
            written[name] = png
    return written


def png(run: Run, name: str) -> bytes:
    """Return one figure of a study as the bytes of a PNG file, without writing it.

    Raises:
      UserError: as `draw`.
    """
    with own_files.errors_in_one_line():
        figure = draw(run, name)
    with matplotlib.style.context(["default", STYLE]):
        return _bytes(figure, "png")


def _bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as the bytes of a file."""
    file = io.BytesIO()
    figure.savefig(file, format=kind, **_SAVED[kind])
    return file.getvalue()


def applying(run: Run) -> list[str]:
    """Return the names of the figures that apply to a study, in their order on the page."""
    return [name for name in drawn_in_order() if FIGURES[name].applies(run)]


def draw(run: Run, name: str) -> Figure:
    """Draw one figure of a study, without writing it.

    Raises:
      UserError: if there is no such figure, or if the study has not recorded what it shows.
    """
    draw_it = FIGURES[name].draw
    if draw_it is None or not FIGURES[name].applies(run):
        why = "it is on the page only" if draw_it is None else "the study has not recorded what it shows"
        raise UserError(f"figure {name!r}: {why}; there are {', '.join(applying(run))}")
    with matplotlib.style.context(["default", STYLE]):
        return draw_it(run)
