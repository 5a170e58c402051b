"""The figure of the clients' data: the number of samples of each client and class."""

from pathlib import Path

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from mdfl_jax.errors import UserError
from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import figure
from mdfl_jax.report.style import INSIDE, MOBILE, STATIC, STYLE, first_seed, looks


def _counts(run: Run) -> np.ndarray:
    counts = run.array(0, "label_counts")
    assert counts is not None
    return counts


def _caption(run: Run) -> str:
    sizes, mobile, label = _counts(run).sum(1), run.array(0, "is_mobile"), looks(run)[0].label
    return (
        f"Samples of each class that each client holds ({first_seed(run)}, {label}); blank: none; the shade is"
        f" logarithmic. A client holds {sizes.min():.0f} to {sizes.max():.0f} samples in all"
        + (f"; the {mobile.sum()} mobile clients are dark." if mobile is not None and mobile.any() else ".")
    )


@figure("label_counts", caption=_caption, applies=lambda run: run.array(0, "label_counts") is not None, place=40)
def label_counts(run: Run) -> Figure:
    """Draws the number of samples of each class that each client of the first seed holds."""
    return draw_counts(_counts(run), run.array(0, "is_mobile"))


def draw_counts(counts: np.ndarray, mobile: np.ndarray | None = None) -> Figure:
    """Draws the number of samples of each client, and of each client and class.

    Args:
      counts: [N, C] the number of samples of each client and class.
      mobile: [N] bool, which clients are mobile; they are dark. None: not known.
    """
    clients, classes = counts.shape
    size = (float(np.clip(0.6 + 0.36 * clients, 4.5, 9.0)), 1.6 + min(0.27 * classes, 5.0))
    drawn = Figure(figsize=size)
    bars, cells = drawn.subplots(2, 1, sharex=True, height_ratios=[1, max(2.0, 0.27 * classes)])
    # Counts differ by orders of magnitude, so the scale is logarithmic. It starts below 1 to make one sample visible.
    shade, norm = matplotlib.colormaps["Blues"], LogNorm(0.5, max(2, counts.max()))
    image = cells.imshow(np.ma.masked_less(counts.T, 1), aspect="auto", cmap=shade, norm=norm, interpolation="nearest")
    if clients <= 30 and classes <= 20:
        for i, c in np.argwhere(counts > 0):
            ink = "white" if norm(counts[i, c]) > 0.6 else "#1a1a1a"
            cells.text(i, c, f"{counts[i, c]:.0f}", color=ink, fontsize=6.5, **INSIDE)
        cells.set_xticks(range(clients))
        cells.set_yticks(range(classes))
    else:
        drawn.colorbar(image, ax=[bars, cells], label="samples", fraction=0.03, pad=0.01, format="%d")
    tint = STATIC if mobile is None else np.where(mobile, MOBILE, STATIC)
    sizes = bars.bar(range(clients), counts.sum(1), color=tint)
    if clients <= 30:
        bars.bar_label(sizes, fmt="%.0f", fontsize=6.5)
    bars.set_ylabel("samples")
    bars.grid(visible=False, axis="x")
    bars.tick_params(axis="x", length=0)
    cells.grid(visible=False)
    cells.set(xlabel="client", ylabel="class")
    if mobile is not None and mobile.any():
        handles = [Patch(color=STATIC, label="static client"), Patch(color=MOBILE, label="mobile client")]
        drawn.legend(handles=handles, loc="outside upper right", ncols=2)
    return drawn


PICTURES = (".png", ".pdf", ".svg")


def check_picture(path: Path) -> None:
    """Checks that a picture can be written to a path, without writing it.

    Raises:
      UserError: if the ending is that of no picture, or if the folder does not exist.
    """
    if path.suffix not in PICTURES:
        raise UserError(f"--picture={path}: it must end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}")
    if not path.parent.is_dir():
        raise UserError(f"--picture={path}: there is no folder {str(path.parent)!r}")


def save_counts(counts: np.ndarray, mobile: np.ndarray | None, path: Path) -> None:
    """Saves the figure of `draw_counts` as PNG, PDF or SVG, by the ending of the path.

    Raises:
      UserError: if the file cannot be written.
    """
    with matplotlib.style.context(["default", STYLE]):
        drawn = draw_counts(counts, mobile)
        try:
            drawn.savefig(path, dpi=150)
        except OSError as error:
            raise UserError(f"--picture={path}: cannot be written ({error.strerror or error})") from error
