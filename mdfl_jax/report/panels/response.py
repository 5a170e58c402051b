"""The panel of a sweep over numbers: how the final accuracy responds to each of them, with intervals."""

from typing import Any, NamedTuple

from matplotlib.figure import Figure

from mdfl_jax.report.along import STEP_SIZE, Line, draw_lines, limits, lines_along, traces_of
from mdfl_jax.report.grid import Scale, left_out, parts, scales
from mdfl_jax.report.panels.curves import explain
from mdfl_jax.report.panels.final_accuracy import is_known
from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.style import accuracy_told, for_plotly, has_intervals, main_axis, make_panels, seeds_told

LEAST_VALUES = 3  # two values are no curve


class Part(NamedTuple):
    """One panel: its title, the setting along its x axis and its lines."""

    title: str
    x: Scale
    lines: list[Line]


def _numbers(run: Run) -> list[Scale]:
    """Return the varying numbers with enough values, without step sizes, which have a panel of their own."""
    found = [scale for scale in scales(run) if scale.numbers is not None and len(scale.texts) >= LEAST_VALUES]
    return [scale for scale in found if not scale.axis.path.endswith(STEP_SIZE)]


def _lines_of(run: Run, x: Scale) -> tuple[Scale | None, list[Scale]]:
    """Return the setting that tells the lines of a panel apart (the one of the colours, if it can), and the others."""
    others = [scale for scale in scales(run) if scale.axis != x.axis]
    main = main_axis(run)
    of = next((scale for scale in others if scale.axis == main), others[0] if others else None)
    return of, [scale for scale in others if scale is not of]


def panels_of(run: Run) -> list[Part]:
    """Return the panels: for each numeric setting one, or one for each combination of the settings of no line."""
    made = []
    for x in _numbers(run):
        of, others = _lines_of(run, x)
        lines = lines_along(x.axis, [x.axis, *([of.axis] if of else [])], run.points)
        lines.sort(key=lambda line: of.at[line.spots[0].point] if of else 0)
        for title, members in parts(run, others).items():
            kept = [line._replace(spots=tuple(s for s in line.spots if s.point in members)) for line in lines]
            beside = [_beside(x, line, i - (len(lines) - 1) / 2) for i, line in enumerate(kept)]
            made.append(Part(title, x, [line for line in beside if line.spots]))
    return made


def _beside(x: Scale, line: Line, aside: float) -> Line:
    """Return a line a little beside its values, so that intervals do not overlap.

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


def _caption(run: Run) -> str:
    names, said = [scale.name for scale in _numbers(run)], ""
    for x in _numbers(run):
        of, others = _lines_of(run, x)
        lines = f" a line for each {of.name}" if of else ""
        each = f"{' and' if of else ''} a panel for each {', '.join(scale.name for scale in others)}" if others else ""
        said += f" By {x.name}:{lines}{each}.{left_out(run, others)}" if lines or each else ""
    bars = "; bars: 95 % Student-t intervals over the seeds" if has_intervals(run) else ""
    return f"{accuracy_told(run).capitalize()} against {', and against '.join(names)}: {seeds_told(run)}{bars}.{said}"


def _span(shown: list[Part]) -> list[float]:
    """Return the range of the y axis that all panels have."""
    return limits([line for part in shown for line in part.lines])


def _chart(run: Run) -> Chart:
    shown, named, panels = panels_of(run), set[str](), []
    for part in shown:
        traces = []
        for line, trace in zip((line for line in part.lines if line.finite), traces_of(part.lines, part.x.axis)):
            first = bool(line.label) and line.label not in named
            traces.append(trace | {"legendgroup": line.label, "showlegend": first})
            named.add(line.label)
        axis: dict[str, Any] = {"tickvals": part.x.places, "ticktext": list(map(for_plotly, part.x.texts))}
        axis |= {"type": "log"} if part.x.is_logarithmic else {}
        yaxis = {"title": {"text": f"{accuracy_told(run)} (%)"}}
        panel = {"title": for_plotly(part.title), "x": for_plotly(part.x.name), "traces": traces}
        panels.append(panel | {"range": _span(shown), "xaxis": axis, "yaxis": yaxis})
    return Chart("multiples", {"panels": panels, "width": 340})


def _applies(run: Run) -> bool:
    return is_known(run) and bool(_numbers(run))


@figure("response", caption=_caption, applies=_applies, place=15, title="Accuracy by setting", chart=_chart)
def response(run: Run) -> Figure:
    """Draw the final accuracy against each varying number, with 95 % intervals and a line for each other value."""
    shown = panels_of(run)
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
    drawn.supylabel(f"{accuracy_told(run)} (%)", fontsize=9.5)
    explain(drawn, handles, run, beside=single)
    return drawn
