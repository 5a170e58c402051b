"""The panel of the final accuracies: the mean over the seeds with its interval, and each seed, by sweep point."""

import numpy as np
from matplotlib.figure import Figure

from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.style import looks, make_panels, seeds_told


def _final_caption(run: Run) -> str:
    said = f"Test accuracy at the end: {seeds_told(run)}"
    many = len(run.manifest["seeds"]) > 1
    return said + (" (large dot) with its 95 % Student-t interval; small dots: the seeds." if many else ".")


def _chart(run: Run) -> Chart:
    styles = looks(run)
    means = [100 * np.array(point["final_accuracy"].get("mean"), float) for point in run.points]
    halves = [100 * np.array(point["final_accuracy"].get("ci95") or 0.0, float) for point in run.points]
    labels, colours = [look.label for look in styles], [look.colour for look in styles]
    seeds = [100 * np.array(point["final_accuracy"].get("per_seed") or [], float) for point in run.points]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": np.concatenate(seeds),
        "y": [label for label, values in zip(labels, seeds) for _ in values],
        "marker": {
            "color": [colour for colour, values in zip(colours, seeds) for _ in values],
            "size": 5,
            "opacity": 0.5,
        },
        "hovertemplate": "%{y}<br>a seed: %{x:.2f} %<extra></extra>",
    }
    bars = {
        "type": "scatter",
        "mode": "markers",
        "x": means,
        "y": labels,
        "error_x": {"type": "data", "array": halves, "thickness": 1.7, "width": 4, "color": "#888888"},
        "marker": {"color": colours, "size": 10},
        "hovertemplate": "%{y}<br>mean: %{x:.2f} %<extra></extra>",
    }
    layout = {
        "showlegend": False,
        "height": 110 + 30 * len(labels),
        "xaxis": {"title": {"text": "final test accuracy (%)"}},
        "yaxis": {"autorange": "reversed"},
    }
    return Chart("plotly", {"traces": [dots, bars], "layout": layout})


@figure("final_accuracy", caption=_final_caption, place=20, title="Final accuracy", chart=_chart)
def final_accuracy(run: Run) -> Figure:
    """Draws the final test accuracy of each sweep point: the mean, its 95 % interval, and the seeds as small dots."""
    styles = looks(run)
    drawn, (axes,) = make_panels(1, 1, 7.2, 0.9 + 0.36 * len(styles))
    for p, look in enumerate(styles):
        statistic = run.points[p]["final_accuracy"]
        mean, half = (100 * np.array(statistic.get(key), float) for key in ("mean", "ci95"))
        seeds = 100 * np.array(statistic.get("per_seed") or [], float)
        axes.scatter(seeds, np.full(len(seeds), p + 0.24), s=11, color=look.colour, alpha=0.55, linewidths=0)
        axes.errorbar(mean, p, xerr=half, fmt="o", markersize=6, color=look.colour, elinewidth=1.7, capsize=3.5)
    axes.set_yticks(range(len(styles)), [look.label for look in styles])
    axes.set_ylim(len(styles) - 0.45, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("final test accuracy (%)")
    return drawn
