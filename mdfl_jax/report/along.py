"""The final accuracy along a setting of numbers: a line for each combination of the other varying settings."""

import html
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.report.read import Run
from mdfl_jax.report.settings import Axis, point_labels, show
from mdfl_jax.report.style import DASHES, MOBILITY, PALETTE, colours_of, spaced

TICKS = 8  # so many values have a tick each
FEW = 2  # a setting of fewer than three numbers has no course
STEP_SIZE = "lr"  # so end the paths of the settings that are step sizes
PLOTLY_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


class Spot(NamedTuple):
    """One sweep point on a line."""

    x: float  # the value of the setting; it may be infinite
    mean: float  # the mean final accuracy in [0, 1]; NaN if a model diverged
    half: float  # the half-width of its 95 % interval; 0 if it is not known
    point: int  # the index of the sweep point


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


def is_number(value: Any) -> bool:
    """Tells whether a value of a setting is a number; infinity is written as a text."""
    return (isinstance(value, int | float) and not isinstance(value, bool)) or value == "inf"


def numeric_axes(axes: Sequence[Axis]) -> list[Axis]:
    """Returns the settings with more than `FEW` finite numbers, those with most values first."""
    found = [axis for axis in axes if all(map(is_number, axis.values)) and _count(axis) > FEW]
    return sorted(found, key=lambda axis: -_count(axis))


def _count(axis: Axis) -> int:
    return len({float(value) for value in axis.values if math.isfinite(float(value))})


def lines_along(axis: Axis, axes: Sequence[Axis], points: Sequence[dict[str, Any]]) -> list[Line]:
    """Returns the lines along a setting.

    Args:
      axis: the setting of numbers.
      axes: all varying settings.
      points: the sweep points in the order of the values of the axes, with 'final_accuracy' as in summary.json.
    """
    others = [other for other in axes if other.path != axis.path]
    labels = [spaced(label) for label in point_labels(points, others)] if others else [""] * len(points)
    groups: dict[str, list[Spot]] = {}
    for p, (label, point) in enumerate(zip(labels, points)):
        found = point["final_accuracy"]
        mean, half = (float("nan") if found.get(key) is None else float(found[key]) for key in ("mean", "ci95"))
        groups.setdefault(label, []).append(Spot(float(axis.values[p]), mean, 0.0 if math.isnan(half) else half, p))
    main = next((other for other in others if other.path == MOBILITY), others[0] if others else None)
    colours = colours_of(main) if main else {}
    found, seen = [], dict[str, int]()
    for label, spots in groups.items():  # as in all figures, a colour is a value of the main setting
        colour = colours[main.texts[spots[0].point]] if main else PALETTE[0]
        seen[colour] = seen.get(colour, -1) + 1
        found.append(Line(label, colour, seen[colour] % len(DASHES), tuple(sorted(spots))))
    return found


def is_wide(lines: Sequence[Line]) -> bool:
    """Tells whether the values of a setting span more than a factor of ten, so that their axis is logarithmic."""
    values = [spot.x for line in lines for spot in line.finite]
    return bool(values) and min(values) > 0 and max(values) / min(values) > 10


def ticks_of(lines: Sequence[Line]) -> dict[str, Any]:
    """Returns the entries of a plotly axis that puts the ticks at the values of the setting, if they are few."""
    values = sorted({spot.x for line in lines for spot in line.finite})
    return {"tickvals": values, "ticktext": [plain(value) for value in values]} if len(values) <= TICKS else {}


def traces_of(lines: Sequence[Line], name: str) -> list[dict[str, Any]]:
    """Returns the traces of plotly for lines with their intervals.

    Args:
      lines: the lines.
      name: the name of the setting.
    """
    said = html.escape(name)
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": html.escape(line.label) or "accuracy",
            "x": [spot.x for spot in line.finite],
            "y": [100 * spot.mean for spot in line.finite],
            "error_y": {
                "type": "data",
                "array": [100 * spot.half for spot in line.finite],
                "thickness": 1.2,
                "width": 3,
            },
            "line": {"color": line.colour, "dash": PLOTLY_DASHES[line.dashes], "width": 2},
            "text": ["<br>".join(filter(None, (html.escape(line.label), said)))] * len(line.finite),
            "customdata": [f"{100 * spot.mean:.2f} ± {100 * spot.half:.2f}" for spot in line.finite],
            "hovertemplate": "%{text} %{x}: %{customdata} %<extra></extra>",  # a label may have %{...} in itself
        }
        for line in lines
        if line.finite
    ]


def draw_lines(axes: Any, lines: Sequence[Line]) -> dict[str, Any]:
    """Draws lines with their intervals into Matplotlib axes, and returns the drawn lines by label."""
    handles = {}
    for line in lines:
        x, y, half = np.array([spot[:3] for spot in line.finite] or np.zeros((0, 3))).T
        style: dict[str, Any] = {"color": line.colour, "linestyle": DASHES[line.dashes], "markersize": 4, "capsize": 2}
        handles[line.label] = axes.errorbar(x, 100 * y, yerr=100 * half, marker="o", elinewidth=0.9, **style)
    return handles


def plain(value: float) -> str:
    """Returns a value of a setting with at most three digits, as in "2.37"."""
    return show(float(f"{value:.3g}"))


def limits(lines: Sequence[Line], more: Sequence[float] = ()) -> list[float]:
    """Returns the lowest and highest accuracy to draw, in per cent, within 0 and 100."""
    ends = [100 * (spot.mean + sign * spot.half) for line in lines for spot in line.finite for sign in (-1, 1)]
    ends += [100 * value for value in more]
    room = max(0.05 * (max(ends) - min(ends)), 0.5)
    return [max(min(ends) - room, -0.5), min(max(ends) + room, 100.5)]


def of_run(run: Run) -> tuple[Axis, list[Line]] | None:
    """Returns the numeric setting of a study with most values and the lines along it, or None if there is none.

    Step sizes are left out: they have a panel of their own.
    """
    found = [axis for axis in numeric_axes(run.axes) if not axis.path.endswith(STEP_SIZE)]
    return (found[0], lines_along(found[0], run.axes, run.points)) if found else None
