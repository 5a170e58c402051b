"""The panel of the curves: the test accuracy against the rounds, and on the page any recorded metric."""

import textwrap
from typing import Any, NamedTuple

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mdfl_jax.report.explorer import explorer
from mdfl_jax.report.read import ROUNDS, Run
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.settings import point_labels, spaced
from mdfl_jax.report.statistics import band
from mdfl_jax.report.style import end_told, has_intervals, looks, main_axis, make_panels, seeds_told

MAX_FACETS = 12
MANY = 12  # with more lines in a panel they are thin, without bands, and the legend names colours instead of points
MOST_NAMES = 25  # a legend has at most so many entries
LETTER, KEY = 0.066, 0.5  # the width in inches of a letter of a legend, and of a line with its distances


def against(run: Run) -> str:
    """Return what the curves of a study are drawn against, for captions."""
    return "rounds" if run.x_axis == ROUNDS else run.x_title


def _caption(run: Run) -> str:
    labels = [look.label for look in looks(run)]
    means = [point["final_accuracy"].get("mean") for point in run.points]
    ranked = sorted((mean, label) for mean, label in zip(means, labels) if mean is not None)
    highest = f" Highest at {end_told(run)}: {ranked[-1][1]}, {100 * ranked[-1][0]:.2f} %." if len(ranked) > 1 else ""
    whose = "of the global model" if run.config.get("judged") == "global" else "averaged over the clients"
    banded = has_intervals(run) and not _is_crowded(run)
    said = f"Test accuracy, {whose}, against {against(run)}: {seeds_told(run)}"
    band = "; band" if len(run.points) <= MANY else "; band, where it is drawn"
    said += f"{band}: 95 % Student-t interval over the seeds." if banded else "."
    if run.config.get("target") is not None:
        said += f" Dashed: the target of {100 * run.config['target']:g} %."
    return said + highest


def _chart(run: Run) -> Chart:
    return Chart("curves", explorer(run))


@figure("accuracy", caption=_caption, place=10, title="Curves", chart=_chart)
def accuracy(run: Run) -> Figure:
    """Draw the test accuracy against the rounds or another x axis: the mean over the seeds and its 95 % interval."""
    facets, styles, named = _facets(run), looks(run), naming(run, _is_crowded(run))
    single = len(facets) == 1
    width, height = (7.2, 3.9) if single else (2.9, 2.5)
    drawn, panels = make_panels(len(facets), 3, width, height, sharex=True, sharey=True)
    if not single:
        named = _by_main(run)
    handles: dict[str, Any] = {}
    for axes, (title, members) in zip(panels, facets.items()):
        for p in members:
            curve = run.curves[run.points[p]["id"]].of_results
            x, dashes = curve.along(run.x_axis) / run.x_scale, named.dashes[p] if single else "-"
            thin = _is_crowded(run)
            line = draw_mean(axes, x, 100 * curve.accuracy, styles[p].colour, dashes, (0, 100), thin)
            handles.setdefault(named.labels[p], line)
        axes.set_title(textwrap.fill(title, 36))
        axes.margins(x=0.01)
        target = run.config.get("target")
        if target is not None:
            line = axes.axhline(100 * target, color="#333333", linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
            handles[f"target {100 * target:g} %"] = line
    within(panels[0], 0, 100)
    drawn.supxlabel(run.x_title, fontsize=9.5)
    drawn.supylabel("test accuracy (%)", fontsize=9.5)
    explain(drawn, handles, run, named.title, beside=single)
    return drawn


class Naming(NamedTuple):
    """The label and the dashes of the line of each sweep point, and the title of the legend."""

    labels: list[str]
    dashes: list[Any]
    title: str | None


def naming(run: Run, crowded: bool) -> Naming:
    """Return the names of the lines of a panel with all sweep points.

    Each point has a name of its own. If a panel is crowded and several settings vary, the legend names the colours.
    """
    styles, main = looks(run), main_axis(run)
    if main is not None and crowded and len(run.axes) > 1:
        return _by_main(run)
    if main is not None and len(run.axes) == 1:
        return Naming([spaced(text) for text in main.texts], [look.dashes for look in styles], spaced(main.name))
    return Naming([look.label for look in styles], [look.dashes for look in styles], None)


def _by_main(run: Run) -> Naming:
    """Return names by the setting that decides the colours."""
    main = main_axis(run)
    assert main is not None
    return Naming([spaced(text) for text in main.texts], ["-"] * len(run.points), spaced(main.name))


def explain(drawn: Figure, handles: dict[str, Any], run: Run, title: str | None = None, beside: bool = False) -> None:
    """Add a legend that is not clipped, and makes the figure higher for it. Many graded colours get a colour bar.

    Args:
      drawn: the figure.
      handles: the lines by label. With only one of them nothing is added.
      run: the study, for the values of a colour bar.
      title: the title of the legend.
      beside: whether the legend may be at the right of a single panel, if its labels are short.
    """
    if len(handles) < 2:
        return
    longest = max(map(len, handles))
    if len(handles) > MOST_NAMES:
        _colour_bar(drawn, run)
        return
    if beside and longest * LETTER < 1.9 and len(handles) < 17:
        drawn.legend(list(handles.values()), list(handles), title=title, alignment="left", loc="outside right upper")
        return
    width = drawn.get_figwidth()
    columns = min(max(int(width / (KEY + LETTER * longest)), 1), len(handles))
    drawn.set_figheight(drawn.get_figheight() + 0.19 * -(-len(handles) // columns) + (0.2 if title else 0))
    lines = list(handles.values())
    drawn.legend(lines, list(handles), title=title, ncols=columns, loc="outside upper center")


def _colour_bar(drawn: Figure, run: Run) -> None:
    """Add a colour bar for the main setting, if its values are numbers; other values are named in the table only."""
    main = main_axis(run)
    if main is None or not main.numbers:
        return
    colours, texts = dict(zip(main.texts, (look.colour for look in looks(run)))), list(main.numbers)
    bar = ScalarMappable(Normalize(-0.5, len(texts) - 0.5), ListedColormap([colours[text] for text in texts]))
    every = -(-len(texts) // 10)
    ticks, labels = range(0, len(texts), every), texts[::every]
    drawn.colorbar(bar, ax=drawn.axes, label=spaced(main.name), ticks=list(ticks)).set_ticklabels(labels)


def within(axes: Any, low: float, high: float) -> None:
    """Limit the y axis to values that are possible."""
    bottom, top = axes.get_ylim()
    axes.set_ylim(max(bottom, low), min(top, high))


def _is_crowded(run: Run) -> bool:
    return max(map(len, _facets(run).values())) > MANY


def _facets(run: Run) -> dict[str, list[int]]:
    """Group the indices of the sweep points into panels by all varying settings except the main one.

    There is a single panel if there would be more than `MAX_FACETS`, or fewer than two lines in a panel on average.
    """
    main = main_axis(run)
    others = [axis for axis in run.axes if axis != main]
    facets: dict[str, list[int]] = {}
    for p, title in enumerate(point_labels(run.points, others)):
        facets.setdefault(spaced(title) if others else "", []).append(p)
    if len(facets) > MAX_FACETS or 2 * len(facets) > len(run.points):
        return {"": list(range(len(run.points)))}
    return facets


def draw_mean(
    axes: Any,
    x: np.ndarray,
    values: np.ndarray,
    colour: str,
    dashes: Any,
    limits: tuple[float, float] | None = None,
    thin: bool = False,
) -> Line2D:
    """Draw the mean of values over the seeds, with its 95 % Student-t interval as a band.

    Args:
      axes: the Matplotlib axes.
      x: [E] values along the x axis.
      values: [S, E] values of each seed.
      colour: the colour of the line and the band.
      dashes: the line style.
      limits: (lowest, highest) bounds to which the band is clipped; None: it is not clipped.
      thin: whether the line is thin and without a band, as one of many.

    Returns:
      The line, for a legend.
    """
    mean, half = band(values)
    line: Line2D
    width, mark = 0.8 if thin else None, "o" if len(x) < 3 else None
    (line,) = axes.plot(x, mean, color=colour, linestyle=dashes, marker=mark, linewidth=width)
    if half is not None and not thin:
        ends = (mean - half, mean + half)
        axes.fill_between(x, *(np.clip(ends, *limits) if limits else ends), color=colour, alpha=0.15, linewidth=0)
    return line
