"""The panels of a sweep: the final accuracy along a number, over two settings, from a threshold on, and by step size.

A line is drawn for each combination of the other varying settings.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from mdfl_jax.report.panels.curves import explain
from mdfl_jax.report.panels.final_accuracy import is_known, statistics
from mdfl_jax.report.read import ReportData
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.settings import Axis, point_labels, show, spaced, sweep_axes
from mdfl_jax.report.style import (
    DASHES,
    MOBILITY,
    PALETTE,
    PLOTLY_DASHES,
    colours_of,
    describe_accuracy,
    describe_seeds,
    for_plotly,
    has_intervals,
    ink_on,
    looks,
    main_axis,
    make_panels,
    percent_limits,
)

MOST_PARTS = 12  # more parts of a grid are not drawn
WIDE = 20  # numbers are on a logarithmic axis if the largest is at least so many times the smallest


def is_wide(numbers: Sequence[float]) -> bool:
    """Tell whether numbers are better seen on a logarithmic axis; it has no place for infinity."""
    return bool(numbers) and min(numbers) > 0 and WIDE * min(numbers) <= max(numbers) < math.inf


@dataclass(frozen=True)
class Scale:
    """A varying setting with its values in order: numbers by size, other values as the study lists them.

    Attributes:
      axis: the setting.
      texts: the printed values.
      at: the index in ``texts`` of the value of each sweep point.
      numbers: the values as numbers, infinity included; None if they are not all numbers.
    """

    axis: Axis
    texts: tuple[str, ...]
    at: tuple[int, ...]
    numbers: tuple[float, ...] | None

    @property
    def name(self) -> str:
        """The name of the setting in words."""
        return spaced(self.axis.name)

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite numbers, so that their distances mean something."""
        return self.numbers is not None and all(map(math.isfinite, self.numbers))

    @property
    def is_logarithmic(self) -> bool:
        """Whether the values are better seen on a logarithmic axis."""
        return self.numbers is not None and is_wide(self.numbers)

    @property
    def places(self) -> tuple[float, ...]:
        """The place of each value on an axis: the number, or the index where a value has no place of its own."""
        return self.numbers if self.numbers and self.is_finite else tuple(map(float, range(len(self.texts))))

    def label(self, index: int) -> str:
        """Return the name of one value. A text is used as it is, and a number is written as `radius = 3`."""
        return f"{self.name} = {self.texts[index]}" if self.numbers else spaced(self.texts[index])


def scales(study: ReportData) -> list[Scale]:
    """Return the varying settings of a study with their values in order."""
    return [_scale(axis) for axis in study.axes]


def _scale(axis: Axis) -> Scale:
    numbers = axis.numbers
    texts = tuple(numbers or dict.fromkeys(axis.texts))
    return Scale(axis, texts, tuple(map(texts.index, axis.texts)), tuple(numbers.values()) or None)


def split_by(study: ReportData, others: Sequence[Scale]) -> dict[str, list[int]]:
    """Group the sweep points by their values of some settings.

    Of more than `MOST_PARTS` groups, evenly chosen ones are returned, the first and the last among them.

    Returns:
      The indices of the sweep points by the label of the group; one group with the label "" if there are no settings.
    """
    if not others:
        return {"": list(range(len(study.points)))}
    order = sorted(range(len(study.points)), key=lambda p: [scale.at[p] for scale in others])
    labels = point_labels(study.points, [scale.axis for scale in others])
    found: dict[str, list[int]] = {}
    for p in order:
        found.setdefault(spaced(labels[p]), []).append(p)
    if len(found) <= MOST_PARTS:
        return found
    names = list(found)
    kept = [names[round(i * (len(names) - 1) / (MOST_PARTS - 1))] for i in range(MOST_PARTS)]
    return {name: found[name] for name in kept}


def describe_left_out(study: ReportData, others: Sequence[Scale]) -> str:
    """Return a sentence for a caption if `split_by` does not return all groups, else an empty text."""
    count = len({tuple(scale.at[p] for scale in others) for p in range(len(study.points))})
    return f" Shown are {MOST_PARTS} of {count} combinations of the other settings." if count > MOST_PARTS else ""


TICKS = 8  # so many values have a tick each
FEW = 2  # a setting of fewer than three numbers has no course
STEP_SIZE = "lr"  # so end the paths of the settings that are step sizes


class Spot(NamedTuple):
    """One sweep point on a line."""

    x: float  # the value of the setting, or its place on the axis; it may be infinite
    mean: float  # the mean final accuracy in [0, 1]; NaN if a model diverged
    half: float  # the half-width of its 95 % interval; NaN if it is not known
    point: int  # the index of the sweep point

    @property
    def whiskers(self) -> tuple[float, float]:
        """The parts of the interval below and above the mean that are possible, within 0 and 1."""
        half = 0.0 if math.isnan(self.half) else self.half
        return min(half, self.mean), min(half, 1 - self.mean)


class Line(NamedTuple):
    """The sweep points with the same values of all other settings."""

    label: str
    colour: str
    dashes: int  # the index of its dashes
    spots: tuple[Spot, ...]  # in the order of their values

    @property
    def finite(self) -> list[Spot]:
        """The sweep points with a finite value and a finite accuracy, which are drawn."""
        return [spot for spot in self.spots if math.isfinite(spot.x) and math.isfinite(spot.mean)]


def numeric_axes(axes: Sequence[Axis]) -> list[Axis]:
    """Return the settings with more than `FEW` finite numbers. The one with the most values is first."""
    counts = {axis.path: sum(map(math.isfinite, axis.numbers.values())) for axis in axes}
    return sorted((axis for axis in axes if counts[axis.path] > FEW), key=lambda axis: -counts[axis.path])


def lines_along(axis: Axis, axes: Sequence[Axis], points: Sequence[dict[str, Any]]) -> list[Line]:
    """Return the lines along a setting.

    Args:
      axis: the setting of numbers.
      axes: the settings whose other values have a line each.
      points: the sweep points in the order of the values of the axes, with 'final_accuracy' as in summary.json.
    """
    others = [other for other in axes if other.path != axis.path]
    labels = [spaced(label) for label in point_labels(points, others)] if others else [""] * len(points)
    groups: dict[str, list[Spot]] = {}
    numbers = axis.numbers
    for p, (label, text, point) in enumerate(zip(labels, axis.texts, points)):
        found = point["final_accuracy"]
        mean, half = (float("nan") if found.get(key) is None else float(found[key]) for key in ("mean", "ci95"))
        groups.setdefault(label, []).append(Spot(numbers[text], mean, half, p))
    main = next((other for other in others if other.path == MOBILITY), others[0] if others else None)
    colours = colours_of(main) if main else {}
    lines, seen = [], dict[str, int]()
    for label, spots in groups.items():  # as in all figures, a colour is a value of the main setting
        colour = colours[main.texts[spots[0].point]] if main else PALETTE[0]
        seen[colour] = seen.get(colour, -1) + 1
        lines.append(Line(label, colour, seen[colour] % len(DASHES), tuple(sorted(spots))))
    return lines


def is_logarithmic(lines: Sequence[Line]) -> bool:
    """Tell whether the axis of the setting is logarithmic, for the values that are drawn."""
    return is_wide([spot.x for line in lines for spot in line.finite])


def ticks_of(lines: Sequence[Line]) -> dict[str, Any]:
    """Return the entries of a plotly axis that puts the ticks at the values of the setting, if they are few."""
    values = sorted({spot.x for line in lines for spot in line.finite})
    return {"tickvals": values, "ticktext": [plain(value) for value in values]} if len(values) <= TICKS else {}


def traces_of(lines: Sequence[Line], axis: Axis) -> list[dict[str, Any]]:
    """Return the traces of plotly for lines along a setting, with their intervals."""
    return [_trace(line, axis) for line in lines if line.finite]


def _trace(line: Line, axis: Axis) -> dict[str, Any]:
    spots, texts = line.finite, []
    for spot in spots:
        half = "" if math.isnan(spot.half) else f" ± {100 * spot.half:.2f}"
        said = f"{spaced(axis.name)} = {axis.texts[spot.point]}: {100 * spot.mean:.2f}{half} %"
        texts.append("<br>".join(map(for_plotly, filter(None, (line.label, said)))))
    below, above = (100 * np.array([spot.whiskers[i] for spot in spots]) for i in (0, 1))
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": for_plotly(line.label) or "accuracy",
        "x": [spot.x for spot in spots],
        "y": [100 * spot.mean for spot in spots],
        "error_y": {"array": above, "arrayminus": below, "symmetric": False, "thickness": 1.2, "width": 3},
        "line": {"color": line.colour, "dash": PLOTLY_DASHES[line.dashes], "width": 2},
        "text": texts,
        "hovertemplate": "%{text}<extra></extra>",  # a label may have %{...} in itself
    }


def draw_lines(axes: Any, lines: Sequence[Line]) -> dict[str, Any]:
    """Draw lines with their intervals into Matplotlib axes, and return the drawn lines by label."""
    handles = {}
    for line in lines:
        x, y = np.array([spot[:2] for spot in line.finite] or np.zeros((0, 2))).T
        bars = np.array([spot.whiskers for spot in line.finite] or np.zeros((0, 2))).T
        style: dict[str, Any] = {"color": line.colour, "linestyle": DASHES[line.dashes], "markersize": 4, "capsize": 2}
        handles[line.label] = axes.errorbar(x, 100 * y, yerr=100 * bars, marker="o", elinewidth=0.9, **style)
    return handles


def _line_layout(
    study: ReportData,
    axis: Axis,
    lines: Sequence[Line],
    logarithmic: bool,
    levels: Sequence[float] = (),
    **more: Any,
) -> dict[str, Any]:
    """Return plotly's layout of one chart of lines along a setting.

    Args:
      study: the study.
      axis: the setting.
      lines: the lines.
      logarithmic: whether the axis of the setting is logarithmic.
      levels: further accuracies in [0, 1] that are drawn.
      **more: further entries of the layout.
    """
    return {
        "height": 430,
        "xaxis": {"title": {"text": spaced(axis.name)}} | ({"type": "log"} if logarithmic else {}) | ticks_of(lines),
        "yaxis": {"title": {"text": f"{describe_accuracy(study)} (%)"}, "range": line_limits(lines, levels)},
        **more,
        "showlegend": len(lines) > 1,
        "legend": {"orientation": "h", "y": -0.2},
    }


def _line_figure(
    study: ReportData, axis: Axis, lines: Sequence[Line], logarithmic: bool, levels: Sequence[float] = ()
) -> tuple[Figure, Any]:
    """Draw lines along a setting, and return the figure and its Matplotlib axes. The arguments are `_line_layout`'s."""
    drawn, (axes,) = make_panels(1, 1, 7.2, 3.9)
    handles = draw_lines(axes, lines)
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: plain(value))
        axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.set(xlabel=spaced(axis.name), ylabel=f"{describe_accuracy(study)} (%)", ylim=line_limits(lines, levels))
    if len(handles) > 1:
        drawn.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=min(len(handles), 4))
    return drawn, axes


def plain(value: float) -> str:
    """Return a value of a setting with at most three digits, as in "2.37"."""
    return show(float(f"{value:.3g}"))


def line_limits(lines: Sequence[Line], more: Sequence[float] = ()) -> list[float]:
    """Return the lowest and highest accuracy to draw, in per cent; ``more`` are further accuracies in [0, 1]."""
    spots = [spot for line in lines for spot in line.finite]
    ends = [spot.mean - spot.whiskers[0] for spot in spots] + [spot.mean + spot.whiskers[1] for spot in spots]
    return percent_limits([100 * end for end in [*ends, *more]])


def main_lines(study: ReportData) -> tuple[Axis, list[Line]] | None:
    """Return the numeric setting of a study with most values and the lines along it, or None if there is none.

    Step sizes are left out: they have a panel of their own.
    """
    found = [axis for axis in numeric_axes(study.axes) if not axis.path.endswith(STEP_SIZE)]
    return (found[0], lines_along(found[0], study.axes, study.points)) if found else None


LEAST_VALUES = 3  # two values are no curve


class Part(NamedTuple):
    """One panel: its title, the setting along its x axis and its lines."""

    title: str
    x: Scale
    lines: list[Line]


def _numeric_scales(study: ReportData) -> list[Scale]:
    """Return the varying numbers with enough values, without step sizes, which have a panel of their own."""
    found = [scale for scale in scales(study) if scale.numbers is not None and len(scale.texts) >= LEAST_VALUES]
    return [scale for scale in found if not scale.axis.path.endswith(STEP_SIZE)]


def _lines_of(study: ReportData, x: Scale) -> tuple[Scale | None, list[Scale]]:
    """Return the setting that has a line for each value (that of the colours, if it varies), and all other settings."""
    others = [scale for scale in scales(study) if scale.axis != x.axis]
    main = main_axis(study)
    of = next((scale for scale in others if scale.axis == main), others[0] if others else None)
    return of, [scale for scale in others if scale is not of]


def panels_of(study: ReportData) -> list[Part]:
    """Return the panels of each numeric setting: one for each combination of the settings that no line stands for."""
    made = []
    for x in _numeric_scales(study):
        of, others = _lines_of(study, x)
        lines = lines_along(x.axis, [x.axis, *([of.axis] if of else [])], study.points)
        lines.sort(key=lambda line: of.at[line.spots[0].point] if of else 0)
        for title, members in split_by(study, others).items():
            kept = [line._replace(spots=tuple(s for s in line.spots if s.point in members)) for line in lines]
            beside = [_beside(x, line, i - (len(lines) - 1) / 2) for i, line in enumerate(kept)]
            made.append(Part(title, x, [line for line in beside if line.spots]))
    return made


def _beside(x: Scale, line: Line, aside: float) -> Line:
    """Return a line that is drawn a little beside its values, so that the intervals of lines do not overlap.

    Args:
      x: the setting along the axis.
      line: the line.
      aside: by how many steps it is beside its values; a step is a hundredth of the axis.
    """
    first, last = x.places[0], x.places[-1]
    ratio, shift = (last / first) ** (0.01 * aside) if x.is_logarithmic else 1.0, 0.01 * aside * (last - first)
    places = [x.places[x.at[spot.point]] for spot in line.spots]
    moved = [place * ratio if x.is_logarithmic else place + shift for place in places]
    return line._replace(spots=tuple(spot._replace(x=place) for spot, place in zip(line.spots, moved)))


def _response_caption(study: ReportData) -> str:
    names, said = [scale.name for scale in _numeric_scales(study)], ""
    for x in _numeric_scales(study):
        of, others = _lines_of(study, x)
        lines = f" a line for each {of.name}" if of else ""
        each = f"{' and' if of else ''} a panel for each {', '.join(scale.name for scale in others)}" if others else ""
        said += f" By {x.name}:{lines}{each}.{describe_left_out(study, others)}" if lines or each else ""
    bars = "; bars: 95 % Student-t intervals over the seeds" if has_intervals(study) else ""
    what = describe_accuracy(study).capitalize()
    return f"{what} against {', and against '.join(names)}: {describe_seeds(study)}{bars}.{said}"


def _span(shown: list[Part]) -> list[float]:
    """Return the range of the y axis that all panels have."""
    return line_limits([line for part in shown for line in part.lines])


def _response_chart(study: ReportData) -> Chart:
    shown, named, panels = panels_of(study), set[str](), []
    for part in shown:
        traces = []
        for line, trace in zip((line for line in part.lines if line.finite), traces_of(part.lines, part.x.axis)):
            first = bool(line.label) and line.label not in named
            traces.append(trace | {"legendgroup": line.label, "showlegend": first})
            named.add(line.label)
        axis: dict[str, Any] = {"tickvals": part.x.places, "ticktext": list(map(for_plotly, part.x.texts))}
        axis |= {"type": "log"} if part.x.is_logarithmic else {}
        yaxis = {"title": {"text": f"{describe_accuracy(study)} (%)"}}
        panel = {"title": for_plotly(part.title), "x": for_plotly(part.x.name), "traces": traces}
        panels.append(panel | {"range": _span(shown), "xaxis": axis, "yaxis": yaxis})
    return Chart("multiples", {"panels": panels, "width": 340})


def _response_applies(study: ReportData) -> bool:
    return is_known(study) and bool(_numeric_scales(study))


@figure(
    "response",
    caption=_response_caption,
    applies=_response_applies,
    place=15,
    title="Accuracy by setting",
    chart=_response_chart,
)
def response(study: ReportData) -> Figure:
    """Draw the final accuracy against each varying number, with 95 % intervals and a line for each other value."""
    shown = panels_of(study)
    single = len(shown) == 1
    drawn, panels = make_panels(len(shown), 3, *((7.2, 3.6) if single else (2.9, 2.4)), sharey=True)
    handles: dict[str, Any] = {}
    for axes, part in zip(panels, shown):
        for name, line in draw_lines(axes, part.lines).items():
            handles.setdefault(name, line)
        axes.set_xscale("log" if part.x.is_logarithmic else "linear")
        axes.set_xticks(part.x.places, part.x.texts)
        axes.set_xticks([], minor=True)
        axes.set_xlabel(part.x.name)
        axes.set_title(part.title)
    panels[0].set_ylim(*_span(shown))
    drawn.supylabel(f"{describe_accuracy(study)} (%)", fontsize=9.5)
    explain(drawn, handles, study, beside=single)
    return drawn


COLOURS = "viridis"
MOST_TEXTS = 12  # with more columns the numbers in the cells would not be legible


def _heat_map_axes(study: ReportData) -> tuple[Scale, Scale, list[Scale]] | None:
    """Return the settings of the columns, of the rows, and all others; None if the sweep is no grid.

    The columns are of the numbers with most values, the rows of the other setting with most values.
    """
    found = scales(study)
    if len(found) < 2 or len({tuple(scale.at[p] for scale in found) for p in range(len(study.points))}) < len(
        study.points
    ):
        return None
    x = max(found, key=lambda scale: (scale.numbers is not None, len(scale.texts)))
    y = max((scale for scale in found if scale is not x), key=lambda scale: len(scale.texts))
    others = [scale for scale in found if scale not in (x, y)]
    cells = np.prod([len(scale.texts) for scale in found])
    is_grid = len(x.texts) > 2 and 2 * len(study.points) >= cells
    return (x, y, others) if is_grid else None


def _cells(x: Scale, y: Scale, members: list[int], values: np.ndarray) -> np.ndarray:
    """Return values [P] of sweep points as an array [rows, columns], with NaN where there is no sweep point."""
    cells = np.full((len(y.texts), len(x.texts)), np.nan)
    for p in members:
        cells[y.at[p], x.at[p]] = values[p]
    return cells


def _heat_map_caption(study: ReportData) -> str:
    axes = _heat_map_axes(study)
    assert axes is not None
    x, y, others = axes
    each = ", one for each combination of the other settings" if others else ""
    interval = "; on the page, a cell under the pointer shows its 95 % interval" if has_intervals(study) else ""
    what = describe_accuracy(study).capitalize()
    said = f"{what} in per cent by {x.name} and {y.name}{each}: {describe_seeds(study)}{interval}."
    return said + describe_left_out(study, others)


def _heat_map_chart(study: ReportData) -> Chart:
    axes = _heat_map_axes(study)
    assert axes is not None
    x, y, others = axes
    means, _, _ = statistics(study)
    halves = [point["final_accuracy"].get("ci95") for point in study.points]
    names = [for_plotly(look.label) for look in looks(study)]
    hover = [
        f"{name}<br>{mean:.2f}{'' if half is None else f' ± {100 * half:.2f}'} %"
        for name, mean, half in zip(names, means, halves)
    ]
    drawn: list[dict[str, Any]] = []
    written = len(x.texts) <= MOST_TEXTS
    for title, members in split_by(study, others).items():
        texts = [[""] * len(x.texts) for _ in y.texts]
        for p in members:
            texts[y.at[p]][x.at[p]] = hover[p]
        trace: dict[str, Any] = {
            "type": "heatmap",
            "z": _cells(x, y, members, means),
            "customdata": texts,
            "hovertemplate": "%{customdata}<extra></extra>",
            "hoverongaps": False,
            "colorscale": "Viridis",
            "zmin": float(np.nanmin(means)),
            "zmax": float(np.nanmax(means)),
            "showscale": not written and not drawn,
            "xgap": 1,
            "ygap": 1,
        }
        drawn.append(
            {
                "title": for_plotly(title),
                "x": for_plotly(x.name),
                "traces": [trace, *([_cell_texts(trace["z"], trace["zmin"], trace["zmax"])] if written else [])],
                "xaxis": _ticks(x) | {"showgrid": False, "range": [-0.5, len(x.texts) - 0.5]},
                "yaxis": _ticks(y) | {"range": _rows(y)} | {"showgrid": False, "title": {"text": for_plotly(y.name)}},
            }
        )
    wide = 44 * len(x.texts) + 140 if written else 420
    return Chart("multiples", {"panels": drawn, "height": max(34 * len(y.texts), 120), "width": min(wide, 700)})


def _ticks(scale: Scale) -> dict[str, Any]:
    every = -(-len(scale.texts) // 20)  # so many labels are legible
    places = list(range(0, len(scale.texts), every))
    return {"tickvals": places, "ticktext": [for_plotly(spaced(scale.texts[i])) for i in places], "zeroline": False}


def _rows(scale: Scale) -> list[float]:
    """Return the range of the rows: numbers grow upwards, and other values are listed from the top."""
    low, high = -0.5, len(scale.texts) - 0.5
    return [low, high] if scale.numbers else [high, low]


def _cell_texts(cells: np.ndarray, low: float, high: float) -> dict[str, Any]:
    """Return plotly's trace of the numbers in the cells, each in a colour that is read well on that of its cell."""
    places = np.argwhere(np.isfinite(cells))
    values = [cells[row, column] for row, column in places]
    return {
        "type": "scatter",
        "mode": "text",
        "x": places[:, 1],
        "y": places[:, 0],
        "text": [f"{value:.1f}" for value in values],
        "textfont": {"color": [ink_on((value - low) / max(high - low, 1e-9), COLOURS) for value in values]},
        "hoverinfo": "skip",
        "showlegend": False,
    }


@figure(
    "heat_map",
    caption=_heat_map_caption,
    applies=lambda study: is_known(study) and _heat_map_axes(study) is not None,
    place=16,
    title="Accuracy by two settings",
    chart=_heat_map_chart,
)
def heat_map(study: ReportData) -> Figure:
    """Draw the final accuracy as a heat map over two varying settings, with small multiples for the others."""
    axes = _heat_map_axes(study)
    assert axes is not None
    x, y, others = axes
    groups, (means, _, _) = split_by(study, others), statistics(study)
    single = len(groups) == 1
    columns = 1 if single else 2 if len(x.texts) > 6 else 3
    width = 7.2 / columns
    drawn, panels = make_panels(len(groups), columns, width, max(0.9 + min(0.32 * len(y.texts), 4.0), 2.3))
    low, high = float(np.nanmin(means)), float(np.nanmax(means))
    image = None
    for panel, (title, members) in zip(panels, groups.items()):
        cells = _cells(x, y, members, means)
        image = panel.imshow(
            cells, cmap=COLOURS, vmin=low, vmax=high, aspect="auto", origin="lower" if y.numbers else "upper"
        )
        panel.set_title(title)
        panel.grid(visible=False)
        for scale, axis in ((x, panel.xaxis), (y, panel.yaxis)):
            ticks = _ticks(scale)
            axis.set_ticks(ticks["tickvals"], [spaced(scale.texts[i]) for i in ticks["tickvals"]])
            axis.set_label_text(scale.name)
        written = width / len(x.texts) > 0.42
        for row, column in np.argwhere(np.isfinite(cells)) if written else ():
            ink = ink_on((cells[row, column] - low) / max(high - low, 1e-9), COLOURS)
            panel.text(column, row, f"{cells[row, column]:.1f}", ha="center", va="center", fontsize=6.5, color=ink)
    if image is not None:
        drawn.colorbar(image, ax=panels, label="test accuracy (%)", aspect=30)
    return drawn


SHARE = 0.9
BEST = "the best point"  # if all lines have this reference, the panel says no more than the one of responses
NAMED = 6  # so many lines are named in the caption
INK = "#808080"  # a grey that is seen in both themes


class Crossing(NamedTuple):
    """Where a line reaches its threshold."""

    line: Line
    reference: str  # what the reference is
    threshold: float  # in [0, 1]
    at: float | None  # the value of the setting, interpolated; None: the line does not cross the threshold
    is_above: bool  # whether the line is above the threshold at its first value


def line_reference(study: ReportData, line: Line, lines: Sequence[Line]) -> tuple[str, float]:
    """Return what a line is compared with, in words, and its mean accuracy in [0, 1]."""
    endless = next((spot for spot in line.spots if math.isinf(spot.x) and math.isfinite(spot.mean)), None)
    if endless:
        return "the point without a limit", endless.mean
    baselines = {study.points[spot.point].get("baseline") for spot in line.spots} - {None}
    means = {point["id"]: point["final_accuracy"].get("mean") for point in study.points}
    mean = means.get(next(iter(baselines))) if len(baselines) == 1 else None
    if mean is not None:
        return "the baseline", mean
    return BEST, max(spot.mean for of in lines for spot in of.spots if math.isfinite(spot.mean))


def crossing(line: Line, reference: str, threshold: float, logarithmic: bool) -> Crossing:
    """Return where a line first reaches a threshold from below, interpolated between two values of the setting.

    Args:
      line: the line; a line that is above the threshold at its first value has no crossing.
      reference: what the reference is.
      threshold: the threshold, an accuracy in [0, 1].
      logarithmic: whether to interpolate on a logarithmic axis.
    """
    spots = line.finite
    above = bool(spots) and spots[0].mean >= threshold
    pair = next(((a, b) for a, b in itertools.pairwise(spots) if a.mean < threshold <= b.mean), None)
    return Crossing(
        line, reference, threshold, None if above or not pair else _between(*pair, threshold, logarithmic), above
    )


def _between(a: Spot, b: Spot, threshold: float, logarithmic: bool) -> float:
    part = (threshold - a.mean) / (b.mean - a.mean)
    return a.x * (b.x / a.x) ** part if logarithmic else a.x + part * (b.x - a.x)


def crossings(study: ReportData) -> list[Crossing]:
    """Return where each line of a study reaches its threshold."""
    found = main_lines(study)
    lines = [line for line in found[1] if len(line.finite) > 1] if found else []
    references = [line_reference(study, line, lines) for line in lines]
    return [
        crossing(line, words, SHARE * value, is_logarithmic(lines)) for line, (words, value) in zip(lines, references)
    ]


def _threshold_applies(study: ReportData) -> bool:
    return any(each.reference != BEST for each in crossings(study))


def _threshold_axis(study: ReportData) -> Axis:
    found = main_lines(study)
    assert found is not None
    return found[0]


def _threshold_caption(study: ReportData) -> str:
    found, name = crossings(study), spaced(_threshold_axis(study).name)
    whose = " or ".join(dict.fromkeys(each.reference for each in found))
    told = [
        f"{each.line.label or 'the accuracy'}: "
        + (f"at {plain(each.at)}" if each.at is not None else "from the start" if each.is_above else "never")
        for each in found[:NAMED]
    ]
    more = f"; {len(found) - NAMED} more lines" if len(found) > NAMED else ""
    return (
        f"{describe_accuracy(study).capitalize()} against {name}, with 95 % intervals over the seeds. Dotted:"
        f" {100 * SHARE:g} % of the accuracy of {whose}. The mean reaches it {'; '.join(told)}{more}."
        " Between two values it is interpolated."
    )


def _threshold_chart(study: ReportData) -> Chart:
    found, axis = crossings(study), _threshold_axis(study)
    lines, levels = [each.line for each in found], {each.threshold: each for each in found}
    marks = [each for each in found if each.at is not None]
    traces = traces_of(lines, axis)
    if marks:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "threshold",
                "x": [each.at for each in marks],
                "y": [100 * each.threshold for each in marks],
                "marker": {"symbol": "diamond-open", "size": 12, "color": [each.line.colour for each in marks]},
                "hovertemplate": f"{100 * SHARE:g} % of the reference: %{{y:.2f}} %<br>at %{{x:.3g}}<extra></extra>",
            }
        )
    shapes = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 100 * level, "y1": 100 * level}
        | {"line": {"color": each.line.colour if len(levels) > 1 else INK, "dash": "dot", "width": 1.5}}
        for level, each in levels.items()
    ]
    layout = _line_layout(study, axis, lines, is_logarithmic(lines), list(levels), shapes=shapes)
    return Chart("plotly", {"traces": traces, "layout": layout})


@figure(
    "threshold",
    caption=_threshold_caption,
    applies=_threshold_applies,
    place=17,
    title="Thresholds",
    chart=_threshold_chart,
)
def threshold(study: ReportData) -> Figure:
    """Draw the final accuracy against a setting, and where it reaches 90 % of that of a reference."""
    found, axis = crossings(study), _threshold_axis(study)
    lines, levels = [each.line for each in found], {each.threshold: each for each in found}
    drawn, axes = _line_figure(study, axis, lines, is_logarithmic(lines), list(levels))
    for level, each in levels.items():
        colour = each.line.colour if len(levels) > 1 else INK
        axes.axhline(100 * level, color=colour, linestyle=":", linewidth=1.1, zorder=1)
    for each in found:
        if each.at is not None:
            axes.plot(each.at, 100 * each.threshold, "D", color=each.line.colour, markerfacecolor="none", markersize=7)
    return drawn


def step_lines(study: ReportData) -> tuple[Axis, list[Line]] | None:
    """Return the swept step size and the lines along it, or None if no step size has three values.

    A study with `select` shows only the best sweep points elsewhere, but here all of them.
    """
    points = study.all_points if study.summary.get("selected") else study.points
    axes = sweep_axes(points, study.config)
    for axis in axes:
        values = axis.numbers.values()
        if axis.path.endswith(STEP_SIZE) and len(values) > 2 and min(values) > 0:
            lines = [line for line in lines_along(axis, axes, points) if line.finite]
            return (axis, lines) if lines else None
    return None


def _best(line: Line) -> Any:
    return max(line.finite, key=lambda spot: spot.mean)


def _step_axis_lines(study: ReportData) -> tuple[Axis, list[Line]]:
    found = step_lines(study)
    assert found is not None
    return found


def _step_sizes_caption(study: ReportData) -> str:
    axis, lines = _step_axis_lines(study)
    best = [f"{line.label or 'all'}: {plain(_best(line).x)}" for line in lines[:6]]
    more = f"; {len(lines) - 6} more lines" if len(lines) > 6 else ""
    values = list(axis.numbers.values())
    ends = [line.label or "the line" for line in lines if _best(line).x in (values[0], values[-1])]
    edge = f" At an end of the values, so that others may be better: {'; '.join(ends[:6])}." if ends else ""
    lost = sum(not math.isfinite(spot.mean) for line in lines for spot in line.spots)
    verbs = ("has", "is") if lost == 1 else ("have", "are")
    gone = f" {lost} of the points {verbs[0]} no finite accuracy and {verbs[1]} left out." if lost else ""
    return (
        f"{describe_accuracy(study).capitalize()} against {spaced(axis.name)}, with 95 % intervals over the seeds;"
        f" diamonds: the highest mean of a line. Highest at {'; '.join(best)}{more}.{edge}{gone}"
    )


def _step_sizes_chart(study: ReportData) -> Chart:
    axis, lines = _step_axis_lines(study)
    best: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "name": "highest",
        "x": [_best(line).x for line in lines],
        "y": [100 * _best(line).mean for line in lines],
        "marker": {"symbol": "diamond-open", "size": 13, "color": [line.colour for line in lines]},
        "hoverinfo": "skip",
    }
    layout = _line_layout(study, axis, lines, logarithmic=True)
    return Chart("plotly", {"traces": [*traces_of(lines, axis), best], "layout": layout})


@figure(
    "step_sizes",
    caption=_step_sizes_caption,
    applies=lambda study: step_lines(study) is not None,
    place=18,
    title="Step sizes",
    chart=_step_sizes_chart,
)
def step_sizes(study: ReportData) -> Figure:
    """Draw the final accuracy against the step size on a logarithmic axis, with 95 % intervals over the seeds."""
    axis, lines = _step_axis_lines(study)
    drawn, axes = _line_figure(study, axis, lines, logarithmic=True)
    for line in lines:
        axes.plot(_best(line).x, 100 * _best(line).mean, "D", color=line.colour, markerfacecolor="none", markersize=8)
    axes.set_xticks(list(axis.numbers.values()), minor=False)
    return drawn
