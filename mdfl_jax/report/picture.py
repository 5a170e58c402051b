"""A picture of lines, dots or bars, declared once: the page and Matplotlib draw it, a table has its numbers.

A panel of the report returns a `Picture`. It has no other code for the page, for the files of a paper, or for the CSV
file with the numbers behind it.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mdfl_jax.report.style import DASHES, LETTER, PLOTLY_DASHES, for_plotly, legend_columns, make_panels, on_paper
from mdfl_jax.results.statistics import band

DISC, DOT, DIAMOND, BAR = "disc", "dot", "diamond", "bar"  # how single values are marked
_MARKS: dict[str, tuple[str, str, float, dict[str, Any], dict[str, Any]]] = {
    DISC: ("o", "circle", 7, {}, {}),
    DOT: ("o", "circle", 5, {"alpha": 0.55, "markeredgewidth": 0}, {"opacity": 0.5}),
    DIAMOND: ("D", "diamond-open", 12, {"markerfacecolor": "none"}, {}),
}
"""The symbol of each mark on paper and on the page, its size there in pixels, and what else it is on each."""
MOST_NAMES = 25  # a legend has at most so many entries
MANY_ROWS = 40  # of more rows each is low
NARROW = 5.0  # inches; a narrower figure has its legend above
HEADER = ("panel", "name", "x", "x_value", "y", "y_value", "low", "high")


class Scale(NamedTuple):
    """An axis.

    Attributes:
      title: the text on it.
      log: whether it is logarithmic.
      ends: its lowest and highest value; None: as the values need it.
      bounds: values beyond these are impossible, so the axis ends there.
      ticks: the place of each tick by its text; None: as the axis needs them.
    """

    title: str
    log: bool = False
    ends: Sequence[float] | None = None
    bounds: tuple[float, float] | None = None
    ticks: Mapping[str, float] | None = None


class Series(NamedTuple):
    """What is drawn in one colour.

    Attributes:
      name: what it is, in the table and under the pointer.
      colour: '#rrggbb', or a colour of the page's theme by its name (`mdfl_jax.report.style.on_paper`).
      x, y: [K] the places and the values.
      low, high: [K] the ends of the intervals; None: there are none. A line has them as a band, marks as whiskers.
      dash: the index of the line's dashes; None: no line.
      mark: how the values are marked: `DISC`, `DOT`, `DIAMOND`, `BAR` or not at all ("").
      legend: its text in the legend; "": none.
      texts: [K] what is told under the pointer; empty: the name and the value.
      base: [K] where bars begin.
      thick: the width of the line, of the bars in rows, or 0 for the usual one.
    """

    name: str
    colour: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None
    dash: int | None = 0
    mark: str = ""
    legend: str = ""
    texts: Sequence[str] = ()
    base: Any = None
    thick: float = 0.0

    def draw(self, axes: Any, in_rows: bool) -> Any:
        """Draw into Matplotlib axes, and return what stands in the legend."""
        x, y, colour = np.asarray(self.x, float), np.asarray(self.y, float), on_paper(self.colour)
        ends = None if self.low is None else np.stack([y - self.low, np.asarray(self.high) - y])
        whiskers: dict[str, Any] = {"xerr" if in_rows else "yerr": ends}
        if self.mark == BAR:
            whiskers |= {} if ends is None else {"error_kw": {"elinewidth": 1}}
            return (axes.barh if in_rows else axes.bar)(x, y, self.thick, self.base, color=colour, **whiskers)
        style: dict[str, Any] = {"color": colour, "linestyle": "" if self.dash is None else DASHES[self.dash]}
        style |= {"linewidth": self.thick} if self.thick else {}
        if self.mark:
            symbol, _, size, more, _ = _MARKS[self.mark]
            style |= {"marker": symbol, "markersize": size / 1.6, **more}
        places = (y, x) if in_rows else (x, y)
        if self.mark and ends is not None:
            return axes.errorbar(*places, elinewidth=0.9, capsize=2.0, **whiskers, **style)
        line: Line2D
        (line,) = axes.plot(*places, **style)
        if ends is not None:
            axes.fill_between(x, self.low, self.high, color=colour, alpha=0.15, linewidth=0)
        return line

    def traces(self, in_rows: bool, shown: set[str]) -> Iterator[dict[str, Any]]:
        """Yield plotly's traces: of the values, and of their band. ``shown`` has the texts that the legend has."""
        values, places = ("x", "y") if in_rows else ("y", "x")
        name, y = self.legend or self.name, np.asarray(self.y, float)
        of = {"name": for_plotly(name), "legendgroup": name}
        told = f"%{{{values}:.4~g}}<extra>%{{fullData.name}}</extra>"  # a name may have %{...} in itself
        trace: dict[str, Any] = of | {
            places: np.asarray(self.x),
            values: np.asarray(self.y),
            "showlegend": bool(self.legend) and self.legend not in shown,
            "hovertemplate": "%{text}<extra></extra>" if self.texts else told,
        }
        trace |= {"text": list(self.texts)} if self.texts else {}
        shown.add(self.legend)
        if self.low is not None and self.mark:
            ends = {"array": np.asarray(self.high) - y, "arrayminus": y - self.low, "symmetric": False}
            trace[f"error_{values}"] = ends | {"thickness": 1.4, "width": 3, "color": "soft"}
        if self.mark == BAR:
            trace |= {"type": "bar", "width": self.thick, "marker": {"color": self.colour}, "textposition": "none"}
            trace |= {"orientation": "h"} if in_rows else {}
            yield trace | ({} if self.base is None else {"base": self.base})
            return
        if self.dash is not None:
            width = 1 if self.thick and self.thick < 1 else 2
            trace["line"] = {"color": self.colour, "dash": PLOTLY_DASHES[self.dash], "width": width}
        if self.mark:
            _, symbol, size, _, more = _MARKS[self.mark]
            trace |= {"marker": {"color": self.colour, "symbol": symbol, "size": size}, **more}
        if self.low is not None and not self.mark:
            x = np.asarray(self.x, float)
            area = {"x": [*x, *x[::-1]], "y": [*np.asarray(self.high), *np.asarray(self.low)[::-1]]}
            fill = f"rgba{(*bytes.fromhex(self.colour.removeprefix('#')), 0.14)}"
            look = {"fill": "toself", "fillcolor": fill, "line": {"width": 0}}
            hidden = {"hoverinfo": "skip", "showlegend": False}
            yield {"type": "scatter", "mode": "lines"} | of | area | look | hidden
        modes = [*(["lines"] if self.dash is not None else []), *(["markers"] if self.mark else [])]
        yield trace | {"type": "scatter", "mode": "+".join(modes)}


def mean_line(
    name: str,
    look: tuple[str, int],
    x: Any,
    values: np.ndarray,
    limits: Any = None,
    thin: bool = False,
    legend: str = "",
) -> Series:
    """Return the mean of values [S, E] over the seeds at x [E], with its 95 % Student-t interval as a band.

    Args:
      name, legend: as in `Series`.
      look: the colour and the index of the dashes.
      x, values: what is drawn.
      limits: the band is clipped to these; None: it is not.
      thin: whether the line is one of many: it is thin, and has no band.
    """
    mean, half = band(values)
    mark = DISC if len(x) < 3 else ""  # one value is no line
    line = Series(name, look[0], x, mean, dash=look[1], mark=mark, legend=legend, thick=0.8 if thin else 0.0)
    if half is None or thin:
        return line
    ends = np.stack([mean - half, mean + half])
    low, high = ends if limits is None else np.clip(ends, *limits)
    return line._replace(low=low, high=high)


class Level(NamedTuple):
    """A horizontal line: its height, its colour and its text in the legend, if it has one."""

    height: float
    colour: str
    legend: str = ""


class Plot(NamedTuple):
    """A panel.

    Attributes:
      title: what tells it from the others.
      x, y: its axes; of a plot in rows x has no meaning, and y is the axis of the values, which is horizontal.
      series: what is drawn.
      levels: horizontal lines.
      rows: the texts of the rows, from the top; a series has the row's index as x. Empty: it is no plot in rows.
    """

    title: str
    x: Scale
    y: Scale
    series: Sequence[Series]
    levels: Sequence[Level] = ()
    rows: Sequence[str] = ()

    def draw(self, axes: Any) -> dict[str, Any]:
        """Draw into Matplotlib axes, and return what stands in the legend, by its text."""
        handles: dict[str, Any] = {}
        for series in self.series:
            handle = series.draw(axes, bool(self.rows))
            handles |= {series.legend: handle} if series.legend and series.legend not in handles else {}
        for height, colour, legend in self.levels:
            dashes = (0, (4, 3)) if legend else ":"
            line = axes.axhline(height, color=on_paper(colour), linestyle=dashes, linewidth=1.0, zorder=1)
            handles |= {legend: line} if legend else {}
        axes.set_title(textwrap.fill(self.title, 36))
        if not self.rows:
            if not any(series.mark for series in self.series):
                axes.margins(x=0.01)
            _dress(axes, "x", self.x)
            _dress(axes, "y", self.y)
            return handles
        many = len(self.rows) > MANY_ROWS
        axes.set_yticks(range(len(self.rows)), [textwrap.fill(text, 200 if many else 44) for text in self.rows])
        axes.tick_params(axis="y", length=0, labelsize=6 if many else rcParams["ytick.labelsize"])
        axes.set_ylim(len(self.rows) - 0.4, -0.6)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=False, axis="y")
        _dress(axes, "x", self.y)
        return handles

    def on_page(self, shown: set[str]) -> dict[str, Any]:
        """Return the panel for assets/multiples.js. ``shown`` has the texts that the legend has already."""
        traces = [trace for series in self.series for trace in series.traces(bool(self.rows), shown)]
        panel: dict[str, Any] = {"title": for_plotly(self.title), "traces": traces}
        levels = [[level.height, level.colour] for level in self.levels]
        panel |= {"levels": levels} if levels else {}
        if not self.rows:
            return panel | {"xaxis": axis_on_page(self.x), "yaxis": axis_on_page(self.y)}
        many = len(self.rows) > MANY_ROWS
        lines = [[text] if many else textwrap.wrap(text, 26) for text in self.rows]
        names = {"tickvals": list(range(len(lines))), "ticktext": ["<br>".join(map(for_plotly, of)) for of in lines]}
        axis = names | {"range": [len(lines) - 0.4, -0.6], "zeroline": False, "showgrid": False}
        height = 15 * len(lines) if many else 17 * sum(map(len, lines)) + 14 * len(lines)
        panel |= {"height": height, "aside": 7 * max(len(line) for of in lines for line in of)}
        return panel | {"xaxis": axis_on_page(self.y), "yaxis": axis | ({"tickfont": {"size": 10}} if many else {})}

    def numbers(self) -> Iterator[list[Any]]:
        """Yield the numbers of all series, as `HEADER` names them."""
        for series in self.series:
            nothing: list[Any] = [None] * len(series.x)
            ends = [nothing if end is None else np.asarray(end, float).tolist() for end in (series.low, series.high)]
            x, y = np.asarray(series.x).tolist(), np.asarray(series.y, float).tolist()
            for place, value, low, high in zip(x, y, *ends):
                at = self.rows[round(place)] if self.rows else place
                yield [self.title, series.name, self.x.title, at, self.y.title, value, low, high]


def _dress(axes: Any, which: str, scale: Scale) -> None:
    """Give Matplotlib axes the title, the ticks and the ends of a scale along x or y."""
    axis = getattr(axes, f"{which}axis")
    axis.set_label_text(scale.title)
    limits, set_limits = getattr(axes, f"get_{which}lim"), getattr(axes, f"set_{which}lim")
    if scale.log:
        getattr(axes, f"set_{which}scale")("log")
        low, high = limits()
        narrow = high < 100 * low  # an axis of less than two powers of ten has labels at 2 and 5 times a power, too
        axis.set_major_formatter("{x:g}")  # not as a formula, which the style turns off
        axis.set_minor_formatter(lambda x, _: f"{x:g}" if narrow and f"{x:e}"[0] in "25" else "")
    if scale.ticks is not None:
        axis.set_ticks(list(scale.ticks.values()), list(scale.ticks))
        axis.set_ticks([], minor=True)
    if scale.ends is not None:
        set_limits(*scale.ends)
    elif scale.bounds is not None:
        low, high = limits()
        set_limits(max(low, scale.bounds[0]), min(high, scale.bounds[1]))


def axis_on_page(scale: Scale) -> dict[str, Any]:
    """Return a scale as plotly's axis."""
    axis: dict[str, Any] = {"title": {"text": for_plotly(scale.title), "standoff": 6}}
    if scale.log:
        axis["type"] = "log"
    if scale.ticks is not None:
        axis |= {"tickvals": list(scale.ticks.values()), "ticktext": list(map(for_plotly, scale.ticks))}
    if scale.ends is not None:
        axis["range"] = list(np.log10(scale.ends)) if scale.log else list(scale.ends)
    elif scale.bounds is not None and scale.bounds[0] == 0 and not scale.log:
        axis["rangemode"] = "tozero"
    return axis


class Picture(NamedTuple):
    """Panels beside each other with one legend.

    Attributes:
      plots: the panels.
      size: the width and the height of a panel on paper, in inches.
      columns: the largest number of panels in a row on paper.
      pixels: the least width and the height of a panel on the page; a plot in rows has the height of its rows.
      legend: the title of the legend.
      beside: whether a short legend may be beside the panel.
      shared: whether all panels have the same axes.
    """

    plots: Sequence[Plot]
    size: tuple[float, float]
    columns: int = 3
    pixels: tuple[int, int] = (300, 250)
    legend: str | None = None
    beside: bool = False
    shared: bool = False

    def figure(self) -> Figure:
        """Draw the picture with Matplotlib."""
        same = {"sharex": self.shared, "sharey": self.shared and not self.plots[0].rows}
        drawn, panels = make_panels(len(self.plots), self.columns, *self.size, **same)
        handles: dict[str, Any] = {}
        for axes, plot in zip(panels, self.plots):
            handles |= {text: handle for text, handle in plot.draw(axes).items() if text not in handles}
            if self.shared and not plot.rows:
                axes.set(xlabel="", ylabel="")
        if self.shared and not self.plots[0].rows:
            size = rcParams["axes.labelsize"]
            drawn.supxlabel(self.plots[0].x.title, fontsize=size)
            drawn.supylabel(self.plots[0].y.title, fontsize=size)
        self._explain(drawn, handles)
        return drawn

    def on_page(self) -> dict[str, Any]:
        """Return the data for assets/multiples.js."""
        shown: set[str] = set()
        width, height = self.pixels
        return {"panels": [plot.on_page(shown) for plot in self.plots], "width": width, "height": height}

    def numbers(self) -> list[Sequence[Any]]:
        """Return the numbers behind the picture as rows of a table, the header first."""
        return [HEADER, *(row for plot in self.plots for row in plot.numbers())]

    def _explain(self, drawn: Figure, handles: dict[str, Any]) -> None:
        """Add a legend that is not clipped, and make the figure higher for it; none of one entry or of too many."""
        if not 1 < len(handles) <= MOST_NAMES:
            return
        labels, lines, wide = list(handles), list(handles.values()), drawn.get_figwidth()
        if self.beside and wide >= NARROW and max(map(len, labels)) * LETTER < 1.9 and len(handles) < 17:
            drawn.legend(lines, labels, title=self.legend, alignment="left", loc="outside right upper")
            return
        columns = legend_columns(labels, wide)
        lines_high = 0.19 * -(-len(handles) // columns) + (0.2 if self.legend else 0)
        drawn.set_figheight(drawn.get_figheight() + lines_high)
        drawn.legend(lines, labels, title=self.legend, ncols=columns, loc="outside upper center")
