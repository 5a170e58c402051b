"""The panel of further metrics: those that a study, an algorithm or a network declares to be curves."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mdfl_jax.core.metric import Shown
from mdfl_jax.metrics import CURVE
from mdfl_jax.report.panels.curves import MANY, against, draw_mean, explain, naming
from mdfl_jax.report.read import Run, declared
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.style import has_intervals, looks, make_panels, seeds_told


def _drawn(run: Run) -> list[Shown]:
    """Return the metrics that are declared to be curves and that at least one sweep point has."""
    recorded = {name for curve in run.curves.values() for name in curve.measured}
    return [metric for metric in declared(run.summary) if CURVE in metric.where and metric.name in recorded]


def _caption(run: Run) -> str:
    titles = ", ".join(metric.title for metric in _drawn(run))
    banded = has_intervals(run) and len(run.points) <= MANY
    band = "; bands: 95 % Student-t intervals over the seeds" if banded else ""
    return f"Further metrics against {against(run)} ({titles}): {seeds_told(run)}{band}."


def _chart(run: Run) -> Chart:
    return Chart("curves", {"from": "accuracy", "start_with": {"metric": _drawn(run)[0].key}})


@figure(
    "metrics", caption=_caption, applies=lambda run: bool(_drawn(run)), place=70, title="More metrics", chart=_chart
)
def metrics(run: Run) -> Figure:
    """Draw further metrics along the x axis, with one panel for each metric and one line for each sweep point."""
    shown, styles, thin = _drawn(run), looks(run), len(run.points) > MANY
    named = naming(run, thin)
    drawn, panels = make_panels(len(shown), 3, *((7.2, 3.9) if len(shown) == 1 else (3.4, 2.8)))
    handles: dict[str, Any] = {}
    for axes, metric in zip(panels, shown):
        for point, look, label, dashes in zip(run.points, styles, named.labels, named.dashes):
            curve = run.curves[point["id"]].of_results
            if metric.name in curve.measured:
                values, x = curve.measured[metric.name] / metric.scale, curve.along(run.x_axis) / run.x_scale
                limits = (0.0, np.inf) if np.nanmin(values) >= 0 else None  # an interval, too, ends at 0
                handles.setdefault(label, draw_mean(axes, x, values, look.colour, dashes, limits, thin))
        axes.set_ylabel(metric.title)
        axes.set_xlabel(run.x_title)
        axes.margins(x=0.01)
    explain(drawn, handles, run, named.title)
    return drawn
