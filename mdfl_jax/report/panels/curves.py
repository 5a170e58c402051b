"""The figures of the learning progress: accuracy against rounds, final accuracy, and further metrics as curves."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import stdtrit

from mdfl_jax.metrics import CURVE
from mdfl_jax.metrics.declare import Shown
from mdfl_jax.report.read import ROUNDS, Run, declared
from mdfl_jax.report.registry import figure
from mdfl_jax.report.settings import point_labels
from mdfl_jax.report.style import looks, main_axis, make_panels, seeds_told, spaced

MAX_FACETS = 12


def _accuracy_caption(run: Run) -> str:
    seeds, labels = len(run.manifest["seeds"]), [look.label for look in looks(run)]
    means = [point["final_accuracy"].get("mean") for point in run.points]
    ranked = sorted((mean, label) for mean, label in zip(means, labels) if mean is not None)
    highest = f" Highest at the end: {ranked[-1][1]}, {100 * ranked[-1][0]:.2f} %." if len(ranked) > 1 else ""
    whose = "of the global model" if run.config.get("judged") == "global" else "averaged over the clients"
    x_axis = "rounds" if run.x_axis == ROUNDS else run.x_title
    said = f"Test accuracy, {whose}, against {x_axis}: {seeds_told(run)}"
    said += "; band: 95 % Student-t interval over the seeds." if seeds > 1 else "."
    if run.config.get("target") is not None:
        said += f" Dashed: the target of {100 * run.config['target']:g} %."
    return said + highest


@figure("accuracy", caption=_accuracy_caption, place=10)
def accuracy(run: Run) -> Figure:
    """Draws the test accuracy against the rounds or another x axis: the mean over the seeds and its 95 % interval."""
    facets, styles, main = _facets(run), looks(run), main_axis(run)
    single = len(facets) == 1
    width, height = (7.2, 3.9) if single else (2.9, 2.5)
    drawn, panels = make_panels(len(facets), 3, width, height, sharex=True, sharey=True)
    handles: dict[str, Any] = {}
    for axes, (title, members) in zip(panels, facets.items()):
        for p in members:
            look = styles[p]
            label = look.label if main is None or (single and len(run.axes) > 1) else spaced(main.texts[p])
            handles[label] = _draw_curve(axes, run, p, look.colour, look.dashes if single else "-")
        axes.set_title(title)
        axes.margins(x=0.01)
        target = run.config.get("target")
        if target is not None:
            line = axes.axhline(100 * target, color="#333333", linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
            handles[f"target {100 * target:g} %"] = line
    drawn.supxlabel(run.x_title, fontsize=9.5)
    drawn.supylabel("test accuracy (%)", fontsize=9.5)
    if len(handles) > 1:
        place = {"loc": "outside right upper"} if single else {"loc": "outside upper center", "ncols": 6}
        name = spaced(main.name) if main is not None and len(run.axes) == 1 else None
        drawn.legend(list(handles.values()), list(handles), title=name, alignment="left", **place)
    return drawn


def _drawn_metrics(run: Run) -> list[Shown]:
    """Returns the metrics that are declared to be curves and that at least one sweep point has."""
    recorded = {name for curve in run.curves.values() for name in curve.measured}
    return [metric for metric in declared(run.summary) if CURVE in metric.where and metric.name in recorded]


def _metrics_caption(run: Run) -> str:
    titles = ", ".join(metric.title for metric in _drawn_metrics(run))
    band = "; bands: 95 % Student-t intervals over the seeds" if len(run.manifest["seeds"]) > 1 else ""
    return f"Further metrics against rounds ({titles}): {seeds_told(run)}{band}."


@figure("metrics", caption=_metrics_caption, applies=lambda run: bool(_drawn_metrics(run)), place=70)
def metrics(run: Run) -> Figure:
    """Draws further metrics against the rounds, with one panel for each metric and one line for each sweep point."""
    shown, styles = _drawn_metrics(run), looks(run)
    drawn, panels = make_panels(len(shown), 3, *((7.2, 3.9) if len(shown) == 1 else (3.4, 2.8)))
    handles: dict[str, Any] = {}
    for axes, metric in zip(panels, shown):
        for point, look in zip(run.points, styles):
            curve = run.curves[point["id"]]
            if metric.name in curve.measured:
                values = curve.measured[metric.name] / metric.scale
                handles[look.label] = draw_mean(axes, curve.rounds, values, look.colour, look.dashes)
        axes.set_ylabel(metric.title)
        axes.set_xlabel("round")
        axes.margins(x=0.01)
    if len(handles) > 1:
        drawn.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=4)
    return drawn


def _facets(run: Run) -> dict[str, list[int]]:
    """Groups the indices of the sweep points into panels by all varying settings except the main one.

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


def _draw_curve(axes: Any, run: Run, p: int, colour: str, dashes: Any) -> Any:
    curve = run.curves[run.points[p]["id"]]
    return draw_mean(axes, curve.along(run.x_axis) / run.x_scale, 100 * curve.accuracy, colour, dashes, (0, 100))


def draw_mean(
    axes: Any, x: np.ndarray, values: np.ndarray, colour: str, dashes: Any, limits: tuple[float, float] | None = None
) -> Any:
    """Draws the mean of values over the seeds, with its 95 % Student-t interval as a band.

    Args:
      axes: the Matplotlib axes.
      x: [E] values along the x axis.
      values: [S, E] values of each seed.
      colour: the colour of the line and the band.
      dashes: the line style.
      limits: (lowest, highest) bounds to which the band is clipped; None: it is not clipped.

    Returns:
      The line, for a legend.
    """
    seeds, mark = len(values), "o" if len(x) < 3 else None
    (line,) = axes.plot(x, values.mean(0), color=colour, linestyle=dashes, marker=mark)
    if seeds > 1:
        half = stdtrit(seeds - 1, 0.975) * values.std(0, ddof=1) / np.sqrt(seeds)
        band = (values.mean(0) - half, values.mean(0) + half)
        axes.fill_between(x, *(np.clip(band, *limits) if limits else band), color=colour, alpha=0.15, linewidth=0)
    return line
