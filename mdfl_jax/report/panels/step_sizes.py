"""The panel of the step sizes: the final accuracy against the swept step size, a line for each other setting."""

import math
from typing import Any

from matplotlib.figure import Figure

from mdfl_jax.report.along import STEP_SIZE, Line, draw_lines, limits, lines_along, plain, ticks_of, traces_of
from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.settings import Axis, spaced, sweep_axes
from mdfl_jax.report.style import accuracy_told, make_panels

STAR = "D"


def step_lines(run: Run) -> tuple[Axis, list[Line]] | None:
    """Return the swept step size and the lines along it, or None if no step size has three values.

    A study with `select` shows only the best sweep points elsewhere, but here all of them.
    """
    points = run.all_points if run.summary.get("selected") else run.points
    axes = sweep_axes(points, run.config)
    for axis in axes:
        values = axis.numbers.values()
        if axis.path.endswith(STEP_SIZE) and len(values) > 2 and min(values) > 0:
            lines = [line for line in lines_along(axis, axes, points) if line.finite]
            return (axis, lines) if lines else None
    return None


def _best(line: Line) -> Any:
    return max(line.finite, key=lambda spot: spot.mean)


def _found(run: Run) -> tuple[Axis, list[Line]]:
    found = step_lines(run)
    assert found is not None
    return found


def _caption(run: Run) -> str:
    axis, lines = _found(run)
    best = [f"{line.label or 'all'}: {plain(_best(line).x)}" for line in lines[:6]]
    more = f"; {len(lines) - 6} more lines" if len(lines) > 6 else ""
    values = list(axis.numbers.values())
    ends = [line.label or "the line" for line in lines if _best(line).x in (values[0], values[-1])]
    edge = f" At an end of the values, so that others may be better: {'; '.join(ends[:6])}." if ends else ""
    lost = sum(not math.isfinite(spot.mean) for line in lines for spot in line.spots)
    gone = f" Left out for want of a finite accuracy: {lost} of the points." if lost else ""
    return (
        f"{accuracy_told(run).capitalize()} against {spaced(axis.name)}, with 95 % intervals over the seeds; diamonds:"
        f" the highest mean of a line. Highest at {'; '.join(best)}{more}.{edge}{gone}"
    )


def _chart(run: Run) -> Chart:
    axis, lines = _found(run)
    best: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "name": "highest",
        "x": [_best(line).x for line in lines],
        "y": [100 * _best(line).mean for line in lines],
        "marker": {"symbol": "diamond-open", "size": 13, "color": [line.colour for line in lines]},
        "hoverinfo": "skip",
    }
    layout = {
        "height": 430,
        "xaxis": {"title": {"text": spaced(axis.name)}, "type": "log"} | ticks_of(lines),
        "yaxis": {"title": {"text": f"{accuracy_told(run)} (%)"}, "range": limits(lines)},
        "showlegend": len(lines) > 1,
        "legend": {"orientation": "h", "y": -0.2},
    }
    return Chart("plotly", {"traces": [*traces_of(lines, axis), best], "layout": layout})


@figure(
    "step_sizes",
    caption=_caption,
    applies=lambda run: step_lines(run) is not None,
    place=18,
    title="Step sizes",
    chart=_chart,
)
def step_sizes(run: Run) -> Figure:
    """Draw the final accuracy against the step size on a logarithmic axis, with 95 % intervals over the seeds."""
    axis, lines = _found(run)
    drawn, (axes,) = make_panels(1, 1, 7.2, 3.9)
    handles = draw_lines(axes, lines)
    for line in lines:
        axes.plot(_best(line).x, 100 * _best(line).mean, STAR, color=line.colour, markerfacecolor="none", markersize=8)
    axes.set_xscale("log")
    axes.set_xticks(list(axis.numbers.values()), minor=False)
    axes.xaxis.set_major_formatter(lambda value, _: plain(value))
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.set(xlabel=spaced(axis.name), ylabel=f"{accuracy_told(run)} (%)", ylim=limits(lines))
    if len(handles) > 1:
        drawn.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=min(len(handles), 4))
    return drawn
