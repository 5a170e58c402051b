"""The panels of a sweep: the final accuracy along a number, over two settings, from a threshold on, and by step size.

A line is drawn for each combination of the other varying settings.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.contrib.panels.cells import MOST_TEXTS, Cells, Matrices
from mdfl_jax.core.sweep_text import show
from mdfl_jax.report.panels.final_accuracy import is_known, statistics
from mdfl_jax.report.picture import DIAMOND, DISC, Level, Picture, Plot, Scale, Series
from mdfl_jax.report.registry import figure
from mdfl_jax.report.style import (
    DASHES,
    MOBILITY,
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
from mdfl_jax.results.axes import Axis, point_labels, spaced, sweep_axes
from mdfl_jax.results.results import Results

MOST_PARTS = 12  # more parts of a grid are not drawn
WIDE = 20  # numbers are on a logarithmic axis if the largest is at least so many times the smallest
TICKS = 15  # of more values, only some have a tick
LEAST_VALUES = 3  # two values are no curve
_NAMED = 6  # so many lines are named in a caption
STEP_SIZE = "lr"  # so end the paths of the settings that are step sizes


def is_wide(numbers: Sequence[float]) -> bool:
    """Tell whether numbers are better seen on a logarithmic axis; it has no place for infinity."""
    return bool(numbers) and min(numbers) > 0 and WIDE * min(numbers) <= max(numbers) < math.inf


def split_by(study: Results, others: Sequence[Axis]) -> dict[str, list[int]]:
    """Return the indices of the sweep points by the label of their values of some settings.

    Of more than `MOST_PARTS` groups, evenly chosen ones are returned, the first and the last among them. Without
    settings there is one group with the label "".
    """
    if not others:
        return {"": list(range(len(study.points)))}
    labels = point_labels(study.outcomes, others)
    found: dict[str, list[int]] = {}
    for p in sorted(range(len(study.points)), key=lambda p: [axis.at[p] for axis in others]):
        found.setdefault(spaced(labels[p]), []).append(p)
    names = list(found)
    if len(names) > MOST_PARTS:
        names = [names[round(i * (len(names) - 1) / (MOST_PARTS - 1))] for i in range(MOST_PARTS)]
    return {name: found[name] for name in names}


def describe_left_out(study: Results, others: Sequence[Axis]) -> str:
    """Return a sentence for a caption if `split_by` does not return all groups, else an empty text."""
    count = len({tuple(axis.at[p] for axis in others) for p in range(len(study.points))})
    return f" Shown are {MOST_PARTS} of {count} combinations of the other settings." if count > MOST_PARTS else ""


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


class Part(NamedTuple):
    """One panel: the accuracy along a setting.

    Attributes:
      title: the values of the settings that no line stands for.
      x: the setting along the x axis.
      lines: its lines.
      ticks: the place of each value on the axis, by its printed form.
      logarithmic: whether the axis is.
      marks: diamonds (`diamond`).
      levels: horizontal lines: accuracy in [0, 1] -> colour.
    """

    title: str
    x: Axis
    lines: list[Line]
    ticks: Mapping[str, float]
    logarithmic: bool
    marks: Sequence[Series] = ()
    levels: Mapping[float, str] = {}


def picture_of(study: Results, parts: Sequence[Part]) -> Picture:
    """Return panels with one y axis and one legend."""
    accuracy = Scale(f"{describe_accuracy(study)} (%)", ends=_span(parts))
    plots = [
        Plot(
            part.title,
            Scale(part.x.title, part.logarithmic, ticks=part.ticks),
            accuracy,
            [*(_series(line, part.x) for line in part.lines if line.finite), *part.marks],
            [Level(100 * level, colour) for level, colour in part.levels.items()],
        )
        for part in parts
    ]
    single = len(plots) == 1
    size, pixels = ((7.2, 3.6), (340, 340)) if single else ((2.9, 2.4), (340, 250))
    return Picture(plots, size, pixels=pixels, beside=single)


def _series(line: Line, axis: Axis) -> Series:
    """Return what is drawn of a line."""
    spots, texts = line.finite, []
    for spot in spots:
        half = "" if math.isnan(spot.half) else f" ± {100 * spot.half:.2f}"
        said = f"{axis.title} = {axis.texts[spot.point]}: {100 * spot.mean:.2f}{half} %"
        texts.append("<br>".join(map(for_plotly, filter(None, (line.label, said)))))
    means, whiskers = np.array([spot.mean for spot in spots]), np.array([spot.whiskers for spot in spots]).T
    ends = 100 * (means - whiskers[0]), 100 * (means + whiskers[1])
    x, name = [spot.x for spot in spots], line.label or "accuracy"
    return Series(name, line.colour, x, 100 * means, *ends, line.dashes, DISC, line.label, texts)


def diamond(x: float, accuracy: float, colour: str) -> Series:
    """Return a diamond at a place on a line, with an accuracy in [0, 1]."""
    told = [f"{100 * accuracy:.2f} %<br>at {x:.3g}"]
    return Series("", colour, [x], [100 * accuracy], dash=None, mark=DIAMOND, texts=told)


def _span(parts: Sequence[Part]) -> list[float]:
    """Return the range of the y axis that all panels have, in per cent: all means, intervals and levels."""
    spots = [spot for part in parts for line in part.lines for spot in line.finite]
    ends = [spot.mean + end for spot in spots for end in (-spot.whiskers[0], spot.whiskers[1])]
    return percent_limits([100 * end for end in [*ends, *(level for part in parts for level in part.levels)]])


def _ticks_of(texts: Sequence[str], places: Sequence[float], logarithmic: bool) -> dict[str, float]:
    """Return the places of values on an axis by their printed form; of many values some, at equal distances."""
    at = np.log(places) if logarithmic else np.array(places)
    near = {int(np.abs(at - wanted).argmin()) for wanted in np.linspace(at[0], at[-1], TICKS)}
    return {texts[i]: places[i] for i in (sorted(near) if len(at) > TICKS else range(len(at)))}


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
    for p, (label, text, point) in enumerate(zip(labels, axis.texts, points)):
        found = point["final_accuracy"]
        mean, half = (float("nan") if found.get(key) is None else float(found[key]) for key in ("mean", "ci95"))
        groups.setdefault(label, []).append(Spot(axis.numbers[text], mean, half, p))
    main = next((other for other in others if other.path == MOBILITY), others[0] if others else None)
    colours = colours_of(main) if main else {}
    lines, seen = [], dict[str, int]()
    for label, spots in groups.items():  # as in all figures, a colour is a value of the main setting
        colour = colours[main.texts[spots[0].point]] if main else PALETTE[0]
        seen[colour] = seen.get(colour, -1) + 1
        lines.append(Line(label, colour, seen[colour] % len(DASHES), tuple(sorted(spots))))
    return lines


def plain(value: float) -> str:
    """Return a value of a setting with at most three digits, as in "2.37"."""
    return show(float(f"{value:.3g}"))


def _numeric_axes(study: Results) -> list[Axis]:
    """Return the varying numbers with enough values, without step sizes, which have a panel of their own."""
    return [axis for axis in study.axes if len(axis.numbers) >= LEAST_VALUES and not axis.path.endswith(STEP_SIZE)]


def _lines_of(study: Results, x: Axis) -> tuple[Axis | None, list[Axis]]:
    """Return the setting that has a line for each value (that of the colours, if it varies), and all other settings."""
    others, main = [axis for axis in study.axes if axis != x], main_axis(study)
    of = main if main in others else others[0] if others else None
    return of, [axis for axis in others if axis != of]


def _places(axis: Axis) -> tuple[float, ...]:
    """Return the place of each value on an axis: the number, or the index where a value has no place of its own."""
    numbers = tuple(axis.numbers.values())
    return numbers if all(map(math.isfinite, numbers)) else tuple(map(float, range(len(numbers))))


def parts_of(study: Results) -> list[Part]:
    """Return the panels of each numeric setting: one for each combination of the settings that no line stands for."""
    made = []
    for x in _numeric_axes(study) if is_known(study) else ():
        of, others = _lines_of(study, x)
        lines = lines_along(x, [x, *([of] if of else [])], study.outcomes)
        lines.sort(key=lambda line: of.at[line.spots[0].point] if of else 0)
        for title, members in split_by(study, others).items():
            kept = [line._replace(spots=tuple(s for s in line.spots if s.point in members)) for line in lines]
            beside = [_beside(x, line, i - (len(lines) - 1) / 2) for i, line in enumerate(kept)]
            wide = is_wide(tuple(x.numbers.values()))
            ticks = _ticks_of(x.distinct, _places(x), wide)
            made.append(Part(title, x, [line for line in beside if line.spots], ticks, wide))
    return made


def _beside(x: Axis, line: Line, aside: float) -> Line:
    """Return a line that is drawn a little beside its values, so that the intervals of lines do not overlap.

    It is moved along the axis of the setting x by so many steps; a step is a hundredth of the axis.
    """
    places, wide = _places(x), is_wide(tuple(x.numbers.values()))
    first, last = places[0], places[-1]
    ratio, shift = (last / first) ** (0.01 * aside) if wide else 1.0, 0.01 * aside * (last - first)
    own = [places[x.at[spot.point]] for spot in line.spots]
    moved = [place * ratio if wide else place + shift for place in own]
    return line._replace(spots=tuple(spot._replace(x=place) for spot, place in zip(line.spots, moved)))


def _response_caption(study: Results, parts: list[Part]) -> str:
    axes, said = _numeric_axes(study), ""
    for x in axes:
        of, others = _lines_of(study, x)
        lines = f" a line for each {of.title}" if of else ""
        each = f"{' and' if of else ''} a panel for each {', '.join(axis.title for axis in others)}" if others else ""
        said += f" By {x.title}:{lines}{each}.{describe_left_out(study, others)}" if lines or each else ""
    bars = "; bars: 95 % Student-t intervals over the seeds" if has_intervals(study) else ""
    what, names = describe_accuracy(study).capitalize(), ", and against ".join(axis.title for axis in axes)
    return f"{what} against {names}: {describe_seeds(study)}{bars}.{said}"


@figure("response", of=parts_of, caption=_response_caption, place=15, title="Accuracy by setting")
def response(study: Results, parts: list[Part]) -> Picture:
    """Draw the final accuracy against each varying number, with 95 % intervals and a line for each other value."""
    return picture_of(study, parts)


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
    told = [
        f"{for_plotly(look.label)}<br>{mean:.2f}{'' if math.isnan(half) else f' ± {half:.2f}'} %"
        for look, mean, half in zip(looks(study), grid.means, halves)
    ]
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


_SHARE = 0.9
BEST = "the best point"  # if all lines have this reference, the panel says no more than the one of responses


class Crossing(NamedTuple):
    """Where a line reaches its threshold."""

    line: Line
    reference: str  # what the reference is
    threshold: float  # in [0, 1]
    at: float | None  # the value of the setting, interpolated; None: the line does not cross the threshold
    is_above: bool  # whether the line is above the threshold at its first value


def line_reference(study: Results, line: Line, lines: Sequence[Line]) -> tuple[str, float]:
    """Return what a line is compared with, in words, and its mean accuracy in [0, 1]."""
    endless = next((spot for spot in line.spots if math.isinf(spot.x) and math.isfinite(spot.mean)), None)
    if endless:
        return "the point without a limit", endless.mean
    baselines = {study.outcomes[spot.point].get("baseline") for spot in line.spots} - {None}
    means = {point["id"]: point["final_accuracy"].get("mean") for point in study.outcomes}
    mean = means.get(next(iter(baselines))) if len(baselines) == 1 else None
    if mean is not None:
        return "the baseline", mean
    return BEST, max(spot.mean for of in lines for spot in of.spots if math.isfinite(spot.mean))


def crossing(line: Line, reference: str, threshold: float, logarithmic: bool) -> Crossing:
    """Return where a line first reaches a threshold from below, interpolated between two values of the setting.

    The threshold is an accuracy in [0, 1], and the axis may be logarithmic. A line that is above the threshold at its
    first value has no crossing.
    """
    spots = line.finite
    above, at = bool(spots) and spots[0].mean >= threshold, None
    pair = next(((a, b) for a, b in itertools.pairwise(spots) if a.mean < threshold <= b.mean), None)
    if pair and not above:
        a, b = pair
        part = (threshold - a.mean) / (b.mean - a.mean)
        at = a.x * (b.x / a.x) ** part if logarithmic else a.x + part * (b.x - a.x)
    return Crossing(line, reference, threshold, at, above)


def crossings(study: Results) -> tuple[Part, list[Crossing]] | None:
    """Return the lines along the number with most finite values, and where each of them reaches its threshold."""
    axes = {axis: sum(map(math.isfinite, axis.numbers.values())) for axis in _numeric_axes(study)}
    axis = max(axes, key=lambda axis: axes[axis], default=None)
    if axis is None or axes[axis] < LEAST_VALUES:
        return None
    lines = [line for line in lines_along(axis, study.axes, study.outcomes) if len(line.finite) > 1]
    if not lines:
        return None
    wide = is_wide([spot.x for line in lines for spot in line.finite])
    references = [line_reference(study, line, lines) for line in lines]
    found = [crossing(line, words, _SHARE * value, wide) for line, (words, value) in zip(lines, references)]
    levels = {each.threshold: each.line.colour for each in found}
    levels = levels if len(levels) > 1 else dict.fromkeys(levels, "soft")
    marks = [diamond(each.at, each.threshold, each.line.colour) for each in found if each.at is not None]
    return along(axis, lines, wide, marks, levels), found


def _threshold(study: Results) -> tuple[Part, list[Crossing]] | None:
    found = crossings(study)
    return found if found and any(each.reference != BEST for each in found[1]) else None


def _threshold_caption(study: Results, shown: tuple[Part, list[Crossing]]) -> str:
    part, found = shown
    whose = " or ".join(dict.fromkeys(each.reference for each in found))
    places = [
        (f"{each.line.label}: " if each.line.label else "")
        + (f"at {plain(each.at)}" if each.at is not None else "from the start" if each.is_above else "never")
        for each in found[:_NAMED]
    ]
    more = f"; {len(found) - _NAMED} more lines" if len(found) > _NAMED else ""
    return (
        f"{describe_accuracy(study).capitalize()} against {part.x.title}, with 95 % intervals over the seeds."
        f" Dotted: {100 * _SHARE:g} % of the accuracy of {whose}. The mean reaches it {'; '.join(places)}{more}."
        " Between two values it is interpolated."
    )


@figure("threshold", of=_threshold, caption=_threshold_caption, place=17, title="Thresholds")
def threshold(study: Results, shown: tuple[Part, list[Crossing]]) -> Picture:
    """Draw the final accuracy against a setting, and where it reaches 90 % of that of a reference."""
    return picture_of(study, [shown[0]])


def along(axis: Axis, lines: list[Line], wide: bool, marks: Sequence[Series], levels: Mapping[float, str]) -> Part:
    """Return the only panel along a setting, with a tick for each of its finite values, or for some of many."""
    places = [number for number in axis.numbers.values() if math.isfinite(number)]
    return Part("", axis, lines, _ticks_of(list(map(plain, places)), places, wide), wide, marks, levels)


def step_sizes_of(study: Results) -> Part | None:
    """Return the accuracy along the swept step size, or None if no step size has three values.

    A study with `select` shows only the best sweep points elsewhere, but here all of them.
    """
    points = study.summary["points"] if study.summary.get("selected") else study.outcomes
    axes = sweep_axes(points, study.config)
    for axis in axes:
        values = axis.numbers.values()
        if axis.path.endswith(STEP_SIZE) and len(values) >= LEAST_VALUES and min(values) > 0:
            lines = [line for line in lines_along(axis, axes, points) if line.finite]
            best = [(max(line.finite, key=lambda spot: spot.mean), line.colour) for line in lines]
            marks = [diamond(spot.x, spot.mean, colour) for spot, colour in best]
            return along(axis, lines, True, marks, {}) if lines else None
    return None


def _step_sizes_caption(study: Results, shown: Part) -> str:
    axis, lines = shown.x, shown.lines
    best = [f"{line.label or 'all'}: {plain(mark.x[0])}" for line, mark in zip(lines[:_NAMED], shown.marks)]
    more = f"; {len(lines) - _NAMED} more lines" if len(lines) > _NAMED else ""
    values = list(axis.numbers.values())
    ends = [line.label or "the line" for line, mark in zip(lines, shown.marks) if mark.x[0] in (values[0], values[-1])]
    edge = f" At an end of the values, so that others may be better: {'; '.join(ends[:_NAMED])}." if ends else ""
    lost = sum(not math.isfinite(spot.mean) for line in lines for spot in line.spots)
    verbs = ("has", "is") if lost == 1 else ("have", "are")
    gone = f" {lost} of the points {verbs[0]} no finite accuracy and {verbs[1]} left out." if lost else ""
    return (
        f"{describe_accuracy(study).capitalize()} against {axis.title}, with 95 % intervals over the seeds;"
        f" diamonds: the highest mean of a line. Highest at {'; '.join(best)}{more}.{edge}{gone}"
    )


@figure("step_sizes", of=step_sizes_of, caption=_step_sizes_caption, place=18, title="Step sizes")
def step_sizes(study: Results, shown: Part) -> Picture:
    """Draw the final accuracy against the step size on a logarithmic axis, with 95 % intervals over the seeds."""
    return picture_of(study, [shown])
