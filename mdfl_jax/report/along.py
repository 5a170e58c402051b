"""The final accuracy along a setting of numbers: a line for each combination of the other varying settings."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.report.grid import is_wide
from mdfl_jax.report.read import Run
from mdfl_jax.report.settings import Axis, point_labels, show, spaced
from mdfl_jax.report.style import DASHES, MOBILITY, PALETTE, PLOTLY_DASHES, colours_of, for_plotly, percent_limits

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
    """Return the settings with more than `FEW` finite numbers, those with most values first."""
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


def plain(value: float) -> str:
    """Return a value of a setting with at most three digits, as in "2.37"."""
    return show(float(f"{value:.3g}"))


def limits(lines: Sequence[Line], more: Sequence[float] = ()) -> list[float]:
    """Return the lowest and highest accuracy to draw, in per cent; ``more`` are further accuracies in [0, 1]."""
    spots = [spot for line in lines for spot in line.finite]
    ends = [spot.mean - spot.whiskers[0] for spot in spots] + [spot.mean + spot.whiskers[1] for spot in spots]
    return percent_limits([100 * end for end in [*ends, *more]])


def of_run(run: Run) -> tuple[Axis, list[Line]] | None:
    """Return the numeric setting of a study with most values and the lines along it, or None if there is none.

    Step sizes are left out: they have a panel of their own.
    """
    found = [axis for axis in numeric_axes(run.axes) if not axis.path.endswith(STEP_SIZE)]
    return (found[0], lines_along(found[0], run.axes, run.points)) if found else None
