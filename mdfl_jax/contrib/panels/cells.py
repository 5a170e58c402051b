"""Matrices of numbers as colours: on paper, on the page, and as rows of a table."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from mdfl_jax.report.picture import HEADER, Scale, axis_on_page
from mdfl_jax.report.style import LETTER, for_plotly, make_panels

MOST_TEXTS = 12  # of more columns of cells the page writes no numbers
LONGEST_BESIDE, ALONE = 10, 4000  # characters of names of rows that fit between matrices; else a matrix has its own row
WIDEST = 560  # pixels of a matrix beside others, at most
MOST_TICKS = 20  # so many names of rows or columns are legible
LEAST_CELL = 0.42  # of narrower cells, in inches, no number is legible
_PLOTLY = {"viridis": "Viridis", "RdBu": [[k / 8, to_hex(matplotlib.colormaps["RdBu"](k / 8))] for k in range(9)]}


class Cells(NamedTuple):
    """A matrix of numbers as colours.

    Attributes:
      values: [R, C] the numbers; NaN: an empty cell.
      halves: [R, C] half the widths of their intervals; NaN: not known.
      rows, columns: their names.
      label: what the numbers are.
      ends: the numbers of the first and the last colour; others have these as well.
      colours: the name of the colour map.
      upward: whether the first row is at the bottom, as that of numbers.
      signed: whether the numbers are differences; those whose interval is on one side of 0 are bold.
      texts: what is told of each cell under the pointer.
    """

    values: np.ndarray
    halves: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    label: str
    ends: tuple[float, float]
    colours: str = "viridis"
    upward: bool = False
    signed: bool = False
    texts: Sequence[Sequence[str]] = ()

    def known(self) -> Iterator[tuple[int, int, float, str]]:
        """Yield the row, the column and the number of each cell that has one, and a colour that is read well on it."""
        low, high = self.ends
        for row, column in np.argwhere(np.isfinite(self.values)).tolist():
            value = float(self.values[row, column])
            share = np.clip((value - low) / max(high - low, 1e-9), 0, 1)
            yield row, column, value, ink_on(share, self.colours)

    def is_sure(self, row: int, column: int) -> bool:
        """Tell whether a number is a difference whose interval is on one side of 0."""
        return self.signed and bool(abs(self.values[row, column]) > self.halves[row, column])

    def written(self, value: float) -> str:
        """Return a number as it is written in its cell."""
        return f"{value:+.1f}" if self.signed else f"{value:.1f}"

    def draw(self, axes: Any) -> Any:
        """Draw into Matplotlib axes, and return the image."""
        low, high = self.ends
        style: dict[str, Any] = {"aspect": "auto", "origin": "lower" if self.upward else "upper"}
        image = axes.imshow(self.values, cmap=self.colours, vmin=low, vmax=high, **style)
        wide = axes.get_figure().get_figwidth() / axes.get_subplotspec().get_gridspec().ncols
        axes.grid(visible=False)
        for axis, names in ((axes.xaxis, self.columns), (axes.yaxis, self.rows)):
            axis.set_ticks(list(_ticks(names).values()), list(_ticks(names)))
        if LETTER * max(map(len, self.columns)) > 0.75 * wide / len(self.columns):
            axes.tick_params("x", labelrotation=30)
        axes.tick_params("y", labelsize=6 if len(self.rows) > MOST_TICKS / 2 else None)
        for row, column, value, ink in self.known() if wide / len(self.columns) > LEAST_CELL else ():
            look = {"color": ink, "weight": "bold" if self.is_sure(row, column) else "normal", "fontsize": 6.5}
            axes.text(column, row, self.written(value), ha="center", va="center", **look)
        return image

    def on_page(self, room: bool) -> dict[str, Any]:
        """Return the traces and the axes for plotly; ``room`` tells whether the numbers have room in the cells."""
        heat: dict[str, Any] = {"type": "heatmap", "z": self.values, "customdata": self.texts, "hoverongaps": False}
        heat |= {"hovertemplate": "%{customdata}<extra></extra>", "colorscale": _PLOTLY[self.colours]}
        heat |= {"zmin": self.ends[0], "zmax": self.ends[1], "xgap": 1, "ygap": 1, "showscale": not room}
        known = list(self.known()) if room else []
        written = {"type": "scatter", "mode": "text", "hoverinfo": "skip", "showlegend": False}
        written |= {"x": [c for _, c, _, _ in known], "y": [r for r, _, _, _ in known]}
        texts = [f"<b>{self.written(of)}</b>" if self.is_sure(r, c) else self.written(of) for r, c, of, _ in known]
        written |= {"text": texts, "textfont": {"color": [of[3] for of in known]}}
        ends = [-0.5, len(self.rows) - 0.5]
        bare = {"showgrid": False, "zeroline": False}
        x = {"range": [-0.5, len(self.columns) - 0.5], **bare}
        y = {"range": ends if self.upward else ends[::-1], **bare}
        return {"traces": [heat, *([written] if known else [])], "xaxis": x, "yaxis": y}


def _ticks(names: Sequence[str]) -> dict[str, float]:
    """Return the places of some names in a row, as many as are legible."""
    return {names[i]: float(i) for i in range(0, len(names), -(-len(names) // MOST_TICKS))}


def ink_on(share: float, colours: str) -> str:
    """Return black or white, whichever has the higher contrast (WCAG 2) to the colour at a share of a colour map."""
    parts = np.array(matplotlib.colormaps[colours](float(share))[:3])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ (0.2126, 0.7152, 0.0722) > 0.179 else "#ffffff"


class Matrices(NamedTuple):
    """Matrices beside each other with one scale of colours; they have the functions of a `Picture`.

    Attributes:
      x, y: the titles of the columns and of the rows.
      cells: the matrices by their titles.
      size: the width and the height of a panel on paper, in inches.
      columns: the largest number of panels in a row on paper.
      pixels: the least width and the height of a panel on the page.
    """

    x: str
    y: str
    cells: Mapping[str, Cells]
    size: tuple[float, float]
    columns: int = 1
    pixels: tuple[int, int] = (300, 250)

    def figure(self) -> Figure:
        """Draw the matrices with Matplotlib."""
        drawn, panels = make_panels(len(self.cells), self.columns, *self.size, sharex=True, sharey=True)
        for axes, (title, cells) in zip(panels, self.cells.items()):
            image = cells.draw(axes)
            axes.set_title(textwrap.fill(title, 36))
        drawn.supxlabel(self.x, fontsize=matplotlib.rcParams["axes.labelsize"])
        drawn.supylabel(self.y, fontsize=matplotlib.rcParams["axes.labelsize"])
        look: dict[str, Any] = {"aspect": 30, "extend": "both" if cells.signed else "neither"}
        drawn.colorbar(image, ax=panels, label=cells.label, **look)
        return drawn

    def on_page(self) -> dict[str, Any]:
        """Return the data for assets/multiples.js."""
        panels = []
        for title, cells in self.cells.items():
            found = cells.on_page(len(cells.columns) <= MOST_TEXTS)
            for which, text, names in (("xaxis", self.x, cells.columns), ("yaxis", self.y, cells.rows)):
                found[which] = axis_on_page(Scale(text, ticks=_ticks(names))) | found[which]
            panels.append({"title": for_plotly(title), **found})
        longest = max(len(name) for cells in self.cells.values() for name in cells.rows)
        panels = [panel | {"aside": 8 * longest + 40} for panel in panels]  # the names of the rows and their title
        level = max(len(cells.columns) * max(map(len, cells.columns)) for cells in self.cells.values())
        width = max(self.pixels[0], min(8 * level, WIDEST))  # the names of the columns are level where there is room
        return {"panels": panels, "width": width if longest <= LONGEST_BESIDE else ALONE, "height": self.pixels[1]}

    def numbers(self) -> list[Sequence[Any]]:
        """Return the numbers of the matrices as rows of a table, the header first."""
        rows: list[Sequence[Any]] = [(*HEADER[:6], "value", *HEADER[6:])]
        for title, cells in self.cells.items():
            for row, column, value, _ in cells.known():
                half, place = float(cells.halves[row, column]), (self.x, cells.columns[column], self.y)
                whiskers = [None, None] if np.isnan(half) else [value - half, value + half]
                rows.append([title, cells.label, *place, cells.rows[row], value, *whiskers])
        return rows
