"""The panel of thresholds: from which value of a setting on the accuracy is nearly that of a reference.

The reference of a line is the sweep point whose value of the setting is infinite, as the radius of a complete graph;
without one it is the line's baseline; without one it is the best sweep point of the study. The threshold is 90 % of its
accuracy.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from mdfl_jax.report.along import Line, Spot, draw_lines, is_logarithmic, limits, of_run, plain, ticks_of, traces_of
from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.settings import Axis, spaced
from mdfl_jax.report.style import accuracy_told, make_panels

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


def reference_of(run: Run, line: Line, lines: Sequence[Line]) -> tuple[str, float]:
    """Return what a line is compared with, in words, and its mean accuracy in [0, 1]."""
    endless = next((spot for spot in line.spots if math.isinf(spot.x) and math.isfinite(spot.mean)), None)
    if endless:
        return "the point without a limit", endless.mean
    baselines = {run.points[spot.point].get("baseline") for spot in line.spots} - {None}
    means = {point["id"]: point["final_accuracy"].get("mean") for point in run.points}
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


def crossings(run: Run) -> list[Crossing]:
    """Return where each line of a study reaches its threshold."""
    found = of_run(run)
    lines = [line for line in found[1] if len(line.finite) > 1] if found else []
    references = [reference_of(run, line, lines) for line in lines]
    return [
        crossing(line, words, SHARE * value, is_logarithmic(lines)) for line, (words, value) in zip(lines, references)
    ]


def _applies(run: Run) -> bool:
    return any(each.reference != BEST for each in crossings(run))


def _axis(run: Run) -> Axis:
    found = of_run(run)
    assert found is not None
    return found[0]


def _caption(run: Run) -> str:
    found, name = crossings(run), spaced(_axis(run).name)
    whose = " or ".join(dict.fromkeys(each.reference for each in found))
    told = [
        f"{each.line.label or 'the accuracy'}: "
        + (f"at {plain(each.at)}" if each.at is not None else "from the start" if each.is_above else "never")
        for each in found[:NAMED]
    ]
    more = f"; {len(found) - NAMED} more lines" if len(found) > NAMED else ""
    return (
        f"{accuracy_told(run).capitalize()} against {name}, with 95 % intervals over the seeds. Dotted:"
        f" {100 * SHARE:g} % of the accuracy of {whose}. The mean reaches it {'; '.join(told)}{more}."
        " Between two values it is interpolated."
    )


def _chart(run: Run) -> Chart:
    found, name = crossings(run), spaced(_axis(run).name)
    lines, levels = [each.line for each in found], {each.threshold: each for each in found}
    marks = [each for each in found if each.at is not None]
    traces = traces_of(lines, _axis(run))
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
    layout = {
        "height": 430,
        "xaxis": {"title": {"text": name}} | ({"type": "log"} if is_logarithmic(lines) else {}) | ticks_of(lines),
        "yaxis": {"title": {"text": f"{accuracy_told(run)} (%)"}, "range": limits(lines, list(levels))},
        "shapes": shapes,
        "showlegend": len(lines) > 1,
        "legend": {"orientation": "h", "y": -0.2},
    }
    return Chart("plotly", {"traces": traces, "layout": layout})


@figure("threshold", caption=_caption, applies=_applies, place=17, title="Thresholds", chart=_chart)
def threshold(run: Run) -> Figure:
    """Draw the final accuracy against a setting, and where it reaches 90 % of that of a reference."""
    found, name = crossings(run), spaced(_axis(run).name)
    lines = [each.line for each in found]
    drawn, (axes,) = make_panels(1, 1, 7.2, 3.9)
    handles = draw_lines(axes, lines)
    levels = {each.threshold: each for each in found}
    for level, each in levels.items():
        colour = each.line.colour if len(levels) > 1 else INK
        axes.axhline(100 * level, color=colour, linestyle=":", linewidth=1.1, zorder=1)
    for each in found:
        if each.at is not None:
            axes.plot(each.at, 100 * each.threshold, "D", color=each.line.colour, markerfacecolor="none", markersize=7)
    if is_logarithmic(lines):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: plain(value))
        axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.set(xlabel=name, ylabel=f"{accuracy_told(run)} (%)", ylim=limits(lines, list(levels)))
    if len(handles) > 1:
        drawn.legend(
            list(handles.values()), list(handles), loc="outside upper center", ncols=max(1, min(len(handles), 4))
        )
    return drawn
