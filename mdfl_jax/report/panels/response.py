"""The panel of a sweep over numbers: how the final accuracy responds to each of them, with intervals."""

import html
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from mdfl_jax.report.along import STEP_SIZE
from mdfl_jax.report.grid import Scale, left_out, parts, scales
from mdfl_jax.report.panels.curves import explain
from mdfl_jax.report.panels.final_accuracy import is_known, limits, statistics
from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.style import PALETTE, accuracy_told, colours_of, has_intervals, main_axis, make_panels, seeds_told

LEAST_VALUES = 3  # two values are no curve


class Line(NamedTuple):
    """One line of a panel: its name, its colour, its sweep points along the x axis, and their places there."""

    name: str
    colour: str
    points: list[int]
    places: list[float]


class Part(NamedTuple):
    """One panel: its title, the setting along its x axis and its lines."""

    title: str
    x: Scale
    lines: list[Line]


def _numbers(run: Run) -> list[Scale]:
    """Returns the varying settings that are numbers and have enough values."""
    return [scale for scale in scales(run) if scale.numbers is not None and len(scale.texts) >= LEAST_VALUES]


def _lines_of(run: Run, x: Scale) -> tuple[Scale | None, list[Scale]]:
    """Returns the setting that tells the lines of a panel apart (the one of the colours, if it can), and the others."""
    others = [scale for scale in scales(run) if scale.axis != x.axis]
    main = main_axis(run)
    of = next((scale for scale in others if scale.axis == main), others[0] if others else None)
    return of, [scale for scale in others if scale is not of]


def panels_of(run: Run) -> list[Part]:
    """Returns the panels: for each numeric setting one, or one for each combination of the settings of no line."""
    made = []
    for x in _numbers(run):
        of, others = _lines_of(run, x)
        colours = {} if of is None else colours_of(of.axis)
        for title, members in parts(run, others).items():
            lines = []
            for i in range(1 if of is None else len(of.texts)):
                points = sorted((p for p in members if of is None or of.at[p] == i), key=lambda p: x.at[p])
                if points:
                    name = "" if of is None else of.label(i)
                    colour = PALETTE[0] if of is None else colours[of.texts[i]]
                    aside = 0.0 if of is None else i - (len(of.texts) - 1) / 2
                    lines.append(Line(name, colour, points, _beside(x, points, aside)))
            made.append(Part(title, x, lines))
    return made


def _beside(x: Scale, points: list[int], aside: float) -> list[float]:
    """Returns the places of sweep points on the x axis, a little beside their values, so that intervals do not overlap.

    Args:
      x: the setting along the axis.
      points: the sweep points.
      aside: by how many steps they are beside their values; a step is a hundredth of the axis.
    """
    places = [x.places[x.at[p]] for p in points]
    if x.is_logarithmic:
        return [place * (x.places[-1] / x.places[0]) ** (0.01 * aside) for place in places]
    return [place + 0.01 * aside * (x.places[-1] - x.places[0]) for place in places]


def _caption(run: Run) -> str:
    names, said = [scale.name for scale in _numbers(run)], ""
    for x in _numbers(run):
        of, others = _lines_of(run, x)
        lines = f" a line for each {of.name}" if of else ""
        each = f"{' and' if of else ''} a panel for each {', '.join(scale.name for scale in others)}" if others else ""
        said += f" By {x.name}:{lines}{each}.{left_out(run, others)}" if lines or each else ""
    bars = "; bars: 95 % Student-t intervals over the seeds" if has_intervals(run) else ""
    return f"{accuracy_told(run).capitalize()} against {', and against '.join(names)}: {seeds_told(run)}{bars}.{said}"


def _chart(run: Run) -> Chart:
    means, bars, seeds = statistics(run)
    halves = [point["final_accuracy"].get("ci95") for point in run.points]
    span, named, panels = limits(means, bars, seeds), set(), []
    for part in panels_of(run):
        traces: list[dict[str, Any]] = []
        for name, colour, points, places in part.lines:
            texts = [
                part.x.label(part.x.at[p]) + ("" if halves[p] is None else f": ± {100 * halves[p]:.2f}") for p in points
            ]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "x": places,
                    "y": means[points],
                    "text": [html.escape(text) for text in texts],
                    "name": html.escape(name),
                    "legendgroup": name,
                    "showlegend": bool(name) and name not in named,
                    "line": {"color": colour, "width": 1.8},
                    "marker": {"color": colour, "size": 6},
                    "error_y": {
                        "array": bars[1][points],
                        "arrayminus": bars[0][points],
                        "symmetric": False,
                        "thickness": 1.2,
                        "width": 3,
                        "color": colour,
                    },
                    "hovertemplate": "%{fullData.name}<br>%{y:.2f} %<br>%{text}<extra></extra>",
                }
            )
            named.add(name)
        axis: dict[str, Any] = {"tickvals": part.x.places, "ticktext": [html.escape(text) for text in part.x.texts]}
        axis |= {"type": "log"} if part.x.is_logarithmic else {}
        yaxis = {"title": {"text": f"{accuracy_told(run)} (%)"}}
        panel = {"title": html.escape(part.title), "x": html.escape(part.x.name), "traces": traces, "range": span}
        panels.append(panel | {"xaxis": axis, "yaxis": yaxis})
    return Chart("multiples", {"panels": panels, "width": 340})


def _applies(run: Run) -> bool:
    """Tells whether a number varies that is not a step size, which has a panel of its own (`panels/step_sizes.py`)."""
    return is_known(run) and any(not scale.axis.path.endswith(STEP_SIZE) for scale in _numbers(run))


@figure("response", caption=_caption, applies=_applies, place=15, title="Accuracy by setting", chart=_chart)
def response(run: Run) -> Figure:
    """Draws the final accuracy against each varying number, with 95 % intervals and a line for each other value."""
    shown, (means, bars, seeds) = panels_of(run), statistics(run)
    single = len(shown) == 1
    drawn, panels = make_panels(len(shown), 3, *((7.2, 3.6) if single else (2.9, 2.4)), sharey=True)
    handles: dict[str, Any] = {}
    for axes, part in zip(panels, shown):
        for name, colour, points, places in part.lines:
            error = {"yerr": bars[:, points], "elinewidth": 0.9, "capsize": 2}
            handles.setdefault(
                name, axes.errorbar(places, means[points], fmt="o-", color=colour, markersize=3.5, **error)
            )
        axes.set_xscale("log" if part.x.is_logarithmic else "linear")
        axes.set_xticks(part.x.places, part.x.texts)
        axes.set_xticks([], minor=True)
        axes.set_xlabel(part.x.name)
        axes.set_title(part.title)
    panels[0].set_ylim(*limits(means, bars, seeds))
    drawn.supylabel(f"{accuracy_told(run)} (%)", fontsize=9.5)
    explain(drawn, handles, run, beside=single)
    return drawn
