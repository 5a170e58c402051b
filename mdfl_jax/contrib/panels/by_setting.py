"""The panels of a sweep: the final accuracy along a number, and over two settings.

A line is drawn for each value of the setting that decides the colours, a panel for each combination of all others.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.contrib.panels.cells import MOST_TEXTS, Cells, Matrices
from mdfl_jax.core.outcomes import selected_fields
from mdfl_jax.report.panels.final_accuracy import is_known, statistics
from mdfl_jax.report.picture import DISC, Picture, Plot, Scale, Series
from mdfl_jax.report.registry import figure
from mdfl_jax.report.sheet import percent_cell
from mdfl_jax.report.style import (
    DASHES,
    PALETTE,
    colours_of,
    describe_accuracy,
    describe_seeds,
    for_plotly,
    has_intervals,
    looks,
    main_axis,
    percent_limits,
)
from mdfl_jax.results.axes import Axis, point_labels, spaced
from mdfl_jax.results.results import Results

MOST_PARTS = 12  # more parts of a grid are not drawn
WIDE = 20  # numbers are on a logarithmic axis if the largest is at least so many times the smallest
TICKS = 15  # of more values, only some have a tick
LEAST_VALUES = 3  # two values are no curve


def is_wide(numbers: Sequence[float]) -> bool:
    """Tell whether numbers are better seen on a logarithmic axis; it has no place for infinity."""
    return min(numbers) > 0 and WIDE * min(numbers) <= max(numbers) < math.inf


def split_by(study: Results, others: Sequence[Axis]) -> dict[str, list[int]]:
    """Return the indices of the sweep points by the label of their values of some settings.

    Of more than `MOST_PARTS` groups, evenly chosen ones are returned, the first and the last among them. Without
    settings there is one group with the label "".
    """
    labels = point_labels(study.outcomes, others) if others else [""] * len(study.points)
    found: dict[str, list[int]] = {}
    for p in sorted(range(len(labels)), key=lambda p: [axis.at[p] for axis in others]):
        found.setdefault(spaced(labels[p]), []).append(p)
    names = list(found)
    if len(names) > MOST_PARTS:
        names = [names[round(i * (len(names) - 1) / (MOST_PARTS - 1))] for i in range(MOST_PARTS)]
    return {name: found[name] for name in names}


def describe_left_out(study: Results, others: Sequence[Axis]) -> str:
    """Return a sentence for a caption if `split_by` does not return all groups, else an empty text."""
    count = len({tuple(axis.at[p] for axis in others) for p in range(len(study.points))})
    return f" Shown are {MOST_PARTS} of {count} combinations of the other settings." if count > MOST_PARTS else ""


class Along(NamedTuple):
    """What is drawn along a number: the study, the number, the setting of the lines, if any, and all other settings."""

    study: Results
    x: Axis
    lines: Axis | None
    others: list[Axis]


def _numbers_of(study: Results) -> list[Along]:
    """Return the varying numbers with enough values. Along those that `select` has chosen, all its points are shown."""
    if not is_known(study):
        return []
    whole = dataclasses.replace(study, places=(), summary={**study.summary, "selected": []})
    chosen = selected_fields(study.config.get("select")) if study.summary.get("selected") else ()
    found = []
    for of, x in [*((study, x) for x in study.axes), *((whole, x) for x in whole.axes if x.path in chosen)]:
        if len(x.numbers) >= LEAST_VALUES:
            others, main = [axis for axis in of.axes if axis != x], main_axis(of)
            lines = main if main in others else others[0] if others else None
            found.append(Along(of, x, lines, [axis for axis in others if axis != lines]))
    return found


def plots_along(shown: Along) -> list[Plot]:
    """Return the panels along a number, one for each combination of the settings that no line stands for."""
    study, x = shown.study, shown.x
    means, parts, _ = statistics(study)
    numbers = list(x.numbers.values())
    wide = is_wide(numbers)
    places = np.array(numbers if all(map(math.isfinite, numbers)) else range(len(numbers)), float)
    names = shown.lines.distinct if shown.lines else ("accuracy",)
    texts, colours = (shown.lines.texts, colours_of(shown.lines)) if shown.lines else (names * len(means), {})

    def line(i: int, members: Sequence[int]) -> Series:
        points = sorted((p for p in members if texts[p] == names[i] and np.isfinite(means[p])), key=x.at.__getitem__)
        at, mean = places[[x.at[p] for p in points]], means[points]
        aside = 0.01 * (i - (len(names) - 1) / 2)  # so that the intervals of lines do not overlap
        at = at * (places[-1] / places[0]) ** aside if wide else at + aside * np.ptp(places)
        label = spaced(point_labels(study.outcomes, [shown.lines])[points[0]]) if shown.lines and points else ""
        colour = colours.get(names[i], PALETTE[0])
        dash = [colours[name] for name in names[:i] if name in colours].count(colour) % len(DASHES)
        told = []
        for p in points:
            said = f"{x.title} = {x.texts[p]}: {percent_cell(study.outcomes[p]['final_accuracy']).text} %"
            told.append("<br>".join(map(for_plotly, filter(None, (label, said)))))
        ends = mean - parts[0, points], mean + parts[1, points]
        return Series(label or names[i], colour, at, mean, *ends, dash, DISC, label, told)

    scale, limits = Scale(x.title, wide, ticks=_ticks_of(x.distinct, places, wide)), Scale("")
    return [
        Plot(title, scale, limits, [of for i in range(len(names)) if len((of := line(i, members)).x)])
        for title, members in split_by(study, shown.others).items()
    ]


def _ticks_of(texts: Sequence[str], places: np.ndarray, logarithmic: bool) -> dict[str, float]:
    """Return the places of values on an axis by their printed form; of many values some, at equal distances."""
    at = np.log(places) if logarithmic else places
    near = {int(np.abs(at - wanted).argmin()) for wanted in np.linspace(at[0], at[-1], TICKS)}
    return {texts[i]: float(places[i]) for i in (sorted(near) if len(at) > TICKS else range(len(at)))}


def _response_caption(study: Results, shown: list[Along]) -> str:
    said = ""
    for of, x, lines, others in shown:
        each = [f"a line for each {lines.title}"] if lines else []
        each += [f"a panel for each {', '.join(axis.title for axis in others)}"] if others else []
        said += f" By {x.title}: {' and '.join(each)}.{describe_left_out(of, others)}" if each else ""
    bars = "; bars: 95 % Student-t intervals over the seeds" if has_intervals(study) else ""
    what, names = describe_accuracy(study).capitalize(), ", and against ".join(of.x.title for of in shown)
    return f"{what} against {names}: {describe_seeds(study)}{bars}.{said}"


@figure("response", of=_numbers_of, caption=_response_caption, place=15, title="Accuracy by setting")
def response(study: Results, shown: list[Along]) -> Picture:
    """Draw the final accuracy against each varying number, with 95 % intervals and a line for each other value."""
    plots = [plot for along in shown for plot in plots_along(along)]
    ends = percent_limits(np.concatenate([end for of in plots for line in of.series for end in (line.low, line.high)]))
    plots = [plot._replace(y=Scale(f"{describe_accuracy(study)} (%)", ends=ends)) for plot in plots]
    single = len(plots) == 1
    size, pixels = ((7.2, 3.6), (340, 340)) if single else ((2.9, 2.4), (340, 250))
    return Picture(plots, size, pixels=pixels, beside=single)


class Grid(NamedTuple):
    """A sweep as a grid: cells [rows, columns] of the mean accuracy in per cent, for each value of the other settings.

    Attributes:
      x: the setting of the columns: the numbers with most values.
      y: the setting of the rows: the other setting with most values.
      others: the other settings.
      members: [rows, columns] int, the sweep points by the label of the other settings; -1 where there is none.
      means: [P + 1] the accuracies, and NaN for where there is no sweep point.
    """

    x: Axis
    y: Axis
    others: list[Axis]
    members: dict[str, np.ndarray]
    means: np.ndarray


def grid_of(study: Results) -> Grid | None:
    """Return the grid of a sweep; None if it is none, or has no accuracy."""
    axes, count = study.axes, len(study.points)
    distinct = {tuple(axis.at[p] for axis in axes) for p in range(count)}
    if not is_known(study) or len(axes) < 2 or len(distinct) < count:
        return None
    x = max(axes, key=lambda axis: (bool(axis.numbers), len(axis.distinct)))
    y = max((axis for axis in axes if axis is not x), key=lambda axis: len(axis.distinct))
    if len(x.distinct) < LEAST_VALUES or 2 * count < math.prod(len(axis.distinct) for axis in axes):
        return None
    others = [axis for axis in axes if axis not in (x, y)]
    members = {}
    for title, points in split_by(study, others).items():
        members[title] = np.full((len(y.distinct), len(x.distinct)), -1)
        for p in points:
            members[title][y.at[p], x.at[p]] = p
    return Grid(x, y, others, members, np.append(statistics(study)[0], np.nan))


def _heat_map_caption(study: Results, grid: Grid) -> str:
    each = ", one for each combination of the other settings" if grid.others else ""
    interval = "; on the page, a cell under the pointer shows its 95 % interval" if has_intervals(study) else ""
    what = describe_accuracy(study).capitalize()
    said = f"{what} in per cent by {grid.x.title} and {grid.y.title}{each}: {describe_seeds(study)}{interval}."
    return said + describe_left_out(study, grid.others)


@figure("heat_map", of=grid_of, caption=_heat_map_caption, place=16, title="Accuracy by two settings")
def heat_map(study: Results, grid: Grid) -> Matrices:
    """Draw the final accuracy as a heat map over two varying settings, with small multiples for the others."""
    x, y = grid.x, grid.y
    halves = np.array([point["final_accuracy"].get("ci95") for point in study.outcomes] + [np.nan], float) * 100
    cell = {p: percent_cell(point["final_accuracy"]).text for p, point in enumerate(study.outcomes)}
    told = {p: f"{for_plotly(look.label)}<br>{cell[p]} %" for p, look in enumerate(looks(study))}
    ends = float(np.nanmin(grid.means)), float(np.nanmax(grid.means))

    def cells(members: np.ndarray) -> Cells:
        texts = [["" if p < 0 else told[p] for p in row] for row in members]
        names = [spaced(text) for text in y.distinct], [spaced(text) for text in x.distinct]
        style: dict[str, Any] = {"upward": bool(y.numbers), "texts": texts}
        return Cells(grid.means[members], halves[members], *names, "test accuracy (%)", ends, **style)

    columns = 1 if len(grid.members) == 1 else 2 if len(x.distinct) > 6 else 3
    size = 7.2 / columns, max(0.9 + min(0.32 * len(y.distinct), 4.0), 2.3)
    wide = min(44 * len(x.distinct) + 140, 700) if len(x.distinct) <= MOST_TEXTS else 420
    matrices = {title: cells(members) for title, members in grid.members.items()}
    return Matrices(x.title, y.title, matrices, size, columns, (wide, max(34 * len(y.distinct), 120)))
