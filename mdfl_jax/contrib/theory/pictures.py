"""The pictures of `mdfl theory`: how windows of rounds contract, and how soon unions of rounds are connected."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.style import DASHES, MOBILITY, MOBILITY_COLOURS, PALETTE, UNSTAMPED, make_panels, save_picture

_ENDINGS = tuple(UNSTAMPED)
NAME = "theory"


def _draw(points: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw two panels with a line for each sweep point.

    Left: the mixing parameter p of windows of B rounds, the mean over windows and seeds. Right: the share of first
    rounds, over all seeds, whose union with the rounds after it, in all so many, is connected.

    Args:
      points: the entries 'points' of the content of ``--json`` (`mdfl_jax.contrib.theory.network.as_json`).
    """
    figure, (left, right) = make_panels(2, 2, 4.4, 3.2)
    colours = itertools.cycle(PALETTE)
    for k, point in enumerate(points):
        curves = point["curves"]
        own = MOBILITY_COLOURS.get(str(point["overrides"].get(MOBILITY)))
        look = {"color": own or next(colours), "linestyle": DASHES[k % len(DASHES)], "label": point["point"]}
        left.plot(curves["window"], curves["window_p"], marker="o", markersize=3, **look)
        right.step(curves["union"], curves["connected"], where="post", **look)
    left.set(ylim=(-0.02, 1.02), xlabel="rounds of a window, B", ylabel="p of the window, mean")
    right.set(ylim=(-0.02, 1.02), xlabel="rounds of a union", ylabel="unions that are connected, share")
    for panel, base in ((left, 2), (right, 10)):
        panel.set_xscale("log", base=base)
        panel.xaxis.set_major_formatter("{x:g}")  # the usual one writes powers as formulas, which `STYLE` does not draw
        panel.xaxis.set_minor_formatter("")
    if len(points) > 1:
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(points), 4))
    return figure


def check_folder(folder: Path) -> None:
    """Check that the pictures can be written to a folder, which may not exist yet.

    Raises:
      UserError: if it is a file, or if the folder above it does not exist.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--figures={folder}: it is not a folder")
    if not folder.exists() and not folder.parent.is_dir():
        raise UserError(f"--figures={folder}: there is no folder {str(folder.parent)!r}")


def save_theory(points: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write the picture of `_draw` to a folder as theory.png, theory.pdf and theory.svg, and return their paths.

    Raises:
      UserError: if a file cannot be written.
    """
    paths = [folder / f"{NAME}{ending}" for ending in _ENDINGS]
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"--figures={folder}: cannot be written: {error.strerror or error}") from None
    save_picture(lambda: _draw(points), paths, "figures")
    return paths
