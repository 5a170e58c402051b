"""The figures of a run as PNG and PDF files.

`Figure` objects only, so nothing global is changed, and two reports of a workdir have the same bytes.
"""

import logging
from pathlib import Path

import matplotlib.style

from mdfl_jax.report import clients, curves, groups, roadside, world  # noqa: F401  their figures are registered
from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import in_order
from mdfl_jax.report.style import STYLE

DPI = 150


def write(run: Run) -> dict[str, Path]:
    """Writes figures/NAME.png and NAME.pdf; returns the PNG paths by name, without what the run did not record."""
    folder = run.workdir / "figures"
    folder.mkdir(exist_ok=True)
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # at INFO it tells the story of each embedded font
    written = {}
    with matplotlib.style.context(["default", STYLE]):  # "default": whatever the user's own matplotlibrc says
        for name, picture in in_order().items():
            png, pdf = folder / f"{name}.png", folder / f"{name}.pdf"
            if not picture.applies(run):
                png.unlink(missing_ok=True)  # of an earlier report
                pdf.unlink(missing_ok=True)
                continue
            figure = picture.draw(run)
            figure.savefig(png, dpi=DPI, metadata={"Software": None})
            figure.set_layout_engine("none")  # laid out already
            figure.savefig(pdf, metadata={"CreationDate": None})
            written[name] = png
    return written
