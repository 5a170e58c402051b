"""The style of the figures: colours, lines and panels.

The colours can be distinguished by colour-blind readers. A sweep point has the same colour in every figure, and a
mobility rule has the same colour in every study.
"""

import contextlib
import html
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.outcomes import FEWEST
from mdfl_jax.results.axes import Axis, is_attacked
from mdfl_jax.results.results import Results

# The palette of Okabe and Ito without its yellow, which is too pale for a line on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B")
MOBILITY_COLOURS = {
    "static": "#767676",  # 3:1 at least on white and on the dark page
    "random_movement": "#E69F00",
    "dam": "#0072B2",
    "dcm": "#D55E00",
    "random_walk": "#56B4E9",
    "random_waypoint": "#009E73",
    "gauss_markov": "#CC79A7",
    "manhattan": "#8C564B",
}
MOBILITY = "network.mobility"  # the setting that determines the colours wherever it varies
INSIDE: dict[str, Any] = {"ha": "center", "va": "center_baseline", "in_layout": False}  # the layout ignores this text
STATIC, MOBILE, STAYS = "#b3b3b3", "#2b2b2b", "#6b6b6b"  # greys, since colours stand for sweep points
THEME = {"ink": "#333333", "soft": "#888888", "static": STATIC, "mobile": MOBILE}  # the page has its own tones of these
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 3)))
PLOTLY_DASHES = ("solid", "8px,3px", "2px,3px", "8px,3px,2px,3px", "14px,5px")  # the same on the page
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "axes.edgecolor": "#555555",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "lines.linewidth": 1.7,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a "$" in a name does not start a formula
}


COLUMN, PAGE = 3.5, 7.2  # the width of one column, and of the page, of a paper of two columns, in inches
PAPER = STYLE | {  # one figure of a paper: text of 8 points after printing, and fonts within the file
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "legend.title_fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "savefig.dpi": 300,
    "svg.hashsalt": "mdfl_jax",  # two files of the same figure have the same bytes
}
LETTER, HANDLE = 0.066, 0.5  # the width in inches of a letter of a legend, and of a line with its distances
LEAST_PANEL = 1.65  # the least width of a panel in inches
_width: ContextVar[float | None] = ContextVar("_width", default=None)


@contextlib.contextmanager
def of_width(inches: float) -> Iterator[None]:
    """Make the figures of `make_panels` as wide as a paper needs them, with fewer panels in a row."""
    token = _width.set(inches)
    try:
        yield
    finally:
        _width.reset(token)


UNSTAMPED: dict[str, dict[str, Any]] = {  # the metadata that would make two files of the same figure differ
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}


def save_picture(draw: Callable[[], Figure], paths: Sequence[Path], flag: str, style: dict[str, Any] = STYLE) -> None:
    """Draw a figure and save it to files whose endings say the format. Two files of one figure have the same bytes.

    Args:
      draw: makes the figure.
      paths: the files; each ends in one of `UNSTAMPED`.
      flag: the flag that has named them, for errors.
      style: Matplotlib's settings.

    Raises:
      UserError: if a file cannot be written.
    """
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # at INFO it logs every embedded font
    with matplotlib.style.context(["default", style]):
        figure = draw()
        for path in paths:
            try:
                figure.savefig(path, dpi=style.get("savefig.dpi", 150), metadata=UNSTAMPED[path.suffix])
            except OSError as error:
                raise UserError(f"--{flag}={path}: cannot be written: {error.strerror or error}") from None


@dataclass(frozen=True)
class Look:
    """The label, the colour and the dashes of one sweep point, the same in every figure.

    Attributes:
      label: its short name.
      colour: '#rrggbb'.
      dash: the index of its dashes in `DASHES`.
      full: its name, with the long forms of `labels` where they are told, in the first table and the legend of curves.
    """

    label: str
    colour: str
    dash: int = 0
    full: str = ""

    @property
    def dashes(self) -> Any:
        """The dashes for Matplotlib."""
        return DASHES[self.dash]

    @property
    def plotly_dash(self) -> str:
        """The dashes on the page."""
        return PLOTLY_DASHES[self.dash]


def looks(study: Results) -> list[Look]:
    """Return the label, the colour and the dashes of each sweep point.

    The colour depends on the mobility if it varies, else on the first varying setting. More than two numbers have
    colours of a graded scale; other values have colours of the palette. The dashes depend on the other settings, as
    long as there are enough (`DASHES`): settings with too many values are left to the panels (`curves.facets`).
    Values of the main setting that share a colour, as there are more than colours, have different dashes.
    """
    labels, full, main = study.labels, study.full_labels, main_axis(study)
    if main is None:
        colour = MOBILITY_COLOURS.get(study.value(0, MOBILITY), PALETTE[0])
        return [Look(label, colour, 0, long) for label, long in zip(labels, full)]
    colours = colours_of(main)
    used = list(colours.values())
    turn = {text: used[:i].count(colour) for i, (text, colour) in enumerate(colours.items())}  # of the same colour
    turns, dashed = 1 + max(turn.values()), list[tuple[str, ...]]([()] * len(labels))
    for axis in study.axes:
        told = [(*before, text) for before, text in zip(dashed, axis.texts)]
        if axis != main and turns * len(set(told)) <= len(DASHES):
            dashed = told
    kinds = list(dict.fromkeys(dashed))
    dashes = [(turn[text] + turns * kinds.index(kind)) % len(DASHES) for text, kind in zip(main.texts, dashed)]
    return [Look(label, colours[text], dash, long) for label, text, dash, long in zip(labels, main.texts, dashes, full)]


def main_axis(study: Results) -> Axis | None:
    """Return the varying setting that determines the colours: the mobility if it varies, else the first one."""
    axes = study.axes
    return next((axis for axis in axes if axis.path == MOBILITY), axes[0] if axes else None)


def colours_of(axis: Axis) -> dict[str, str]:
    """Return the colour of each value of an axis, by the printed value."""
    distinct, numbers = dict(zip(axis.texts, axis.values)), axis.numbers
    if len(numbers) > 2:
        return dict(zip(numbers, map(to_hex, matplotlib.colormaps["viridis"](np.linspace(0.0, 0.78, len(numbers))))))
    fixed = {text: MOBILITY_COLOURS[str(value)] for text, value in distinct.items() if str(value) in MOBILITY_COLOURS}
    free = [colour for colour in PALETTE if colour not in fixed.values()] or list(PALETTE)
    others = [text for text in distinct if text not in fixed]
    return fixed | {text: free[i % len(free)] for i, text in enumerate(others)}


def on_paper(colour: str) -> str:
    """Return a colour for files. One of the page's theme is given by its name, with an opacity or without."""
    return THEME.get(colour.partition("/")[0], colour)


def make_panels(count: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Any]]:
    """Return a figure of panels and the Matplotlib axes of its panels.

    Args:
      count: the number of panels.
      columns: the largest number of panels in a row.
      width, height: the size of a panel in inches. Within `of_width` the whole figure has that width.
      **options: further arguments of `Figure.subplots`.
    """
    columns, wanted = min(count, columns), _width.get()
    if wanted is not None:
        columns = max(1, min(columns, int(wanted / LEAST_PANEL)))
        height *= min(1.0, max(0.62, wanted / columns / width))
        width = wanted / columns
    rows = -(-count // columns)
    figure = Figure(figsize=(columns * width, rows * height))
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for above, unused in zip(axes[count - columns :], axes[count:]):
        above.tick_params(labelbottom=True)  # a shared x axis hides these labels, and no panel is below
        unused.set_visible(False)
    return figure, axes[:count]


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Return the number of columns of a legend whose labels fit a width in inches."""
    return max(1, min(len(labels), int(width / (HANDLE + LETTER * max(map(len, labels))))))


def percent_limits(drawn: Iterable[float] | np.ndarray) -> list[float]:
    """Return the ends of an axis of percentages: all finite values that are drawn with a margin, within 0 and 100."""
    values = np.array([value for value in drawn if np.isfinite(value)])
    if not len(values):
        return [0.0, 100.0]
    room = max(0.05 * float(np.ptp(values)), 0.5)
    return [max(float(values.min()) - room, -0.5), min(float(values.max()) + room, 100.5)]


def describe_seeds(study: Results) -> str:
    """Return a phrase for captions with the number of seeds of a mean, without those whose runs have diverged."""
    counts = {point["final_accuracy"].get("seeds") or len(study.seeds_of(p)) for p, point in enumerate(study.outcomes)}
    if max(counts) == 1:
        return "one seed, hence no interval"
    return f"mean over {max(counts)} seeds" if len(counts) == 1 else f"mean over {min(counts)} to {max(counts)} seeds"


def describe_end(study: Results) -> str:
    """Return the time of the results for captions: the end, or the round that compared studies share."""
    at = study.summary.get("round")
    return "the end" if at is None else f"round {at}"


def describe_accuracy(study: Results) -> str:
    """Return the name of the accuracy for captions and axes. Of studies of different lengths it is not the last one."""
    end, whose = describe_end(study), " of the honest clients" if is_attacked(study.outcomes, study.config) else ""
    return f"final test accuracy{whose}" if end == "the end" else f"test accuracy{whose} at {end}"


def has_intervals(study: Results) -> bool:
    """Tell whether a sweep point has as many seeds as an interval needs."""
    return any(len(study.seeds_of(p)) >= FEWEST for p in range(len(study.points)))


def describe_first_seed(study: Results) -> str:
    """Return a phrase for captions that names the first seed, of which arrays such as places are shown."""
    firsts = sorted({study.seeds_of(p)[0] for p in range(len(study.points))})
    return f"seed {firsts[0]}" if len(firsts) == 1 else f"each point's first seed ({', '.join(map(str, firsts))})"


def for_plotly(text: str) -> str:
    """Return a text as plotly shows it unchanged. It understands a little HTML, but no sign for quotation marks."""
    return html.escape(text, quote=False)
