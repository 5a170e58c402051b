"""The panel of the final accuracies: the mean over the seeds with its interval, and each seed, by sweep point."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mdfl_jax.report.read import ReportData
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.style import (
    describe_accuracy,
    describe_seeds,
    for_plotly,
    has_intervals,
    looks,
    make_panels,
    percent_limits,
)

MANY = 40  # of more points the rows are low, and the figure for files has several columns
IN_A_COLUMN = 50
GREY = "#888888"


def is_known(study: ReportData) -> bool:
    """Tell whether any sweep point has a final accuracy. Some tasks have none, and some studies have none yet."""
    return any(point["final_accuracy"].get("mean") is not None for point in study.points)


def _caption(study: ReportData) -> str:
    said = f"{describe_accuracy(study).capitalize()}: {describe_seeds(study)}"
    many = has_intervals(study)
    return said + (" (large dot) with its 95 % Student-t interval; small dots: the seeds." if many else ".")


def statistics(study: ReportData) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return in per cent the means [P], their intervals below and above [2, P], and the seeds of each sweep point.

    The interval ends at 0 and 100 %: a Student-t interval of few seeds may reach beyond what is possible.
    """
    found = [point["final_accuracy"] for point in study.points]
    means = 100 * np.array([of.get("mean") for of in found], float)
    halves = 100 * np.nan_to_num(np.array([of.get("ci95") for of in found], float))
    seeds = [100 * np.array(of.get("per_seed") or [], float) for of in found]
    return means, np.stack([np.minimum(halves, means), np.minimum(halves, 100 - means)]), seeds


def limits(means: np.ndarray, parts: np.ndarray, seeds: list[np.ndarray]) -> list[float]:
    """Return the lowest and highest value of the axis, for the means, their intervals and the seeds."""
    return percent_limits(np.concatenate([means - parts[0], means + parts[1], *seeds]))


def named_rows(labels: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Return the height in pixels and the y axis of a plotly chart with a row for each label, from the top.

    Labels are broken into short lines, so that they leave room on a narrow screen; many labels are small.
    """
    many = len(labels) > MANY
    broken = [[label] if many else textwrap.wrap(label, 26) for label in labels]
    texts = ["<br>".join(map(for_plotly, lines)) for lines in broken]
    height = 15 * len(labels) if many else 17 * sum(map(len, broken)) + 14 * len(labels)
    axis = {"range": [len(labels) - 0.4, -0.6], "tickvals": list(range(len(labels))), "ticktext": texts}
    return height, axis | {"zeroline": False} | ({"tickfont": {"size": 10}} if many else {})


def _chart(study: ReportData) -> Chart:
    styles, (means, parts, seeds) = looks(study), statistics(study)
    many, rows = len(styles) > MANY, np.arange(len(styles))
    names = [for_plotly(look.label) for look in styles]
    height, axis = named_rows([look.label for look in styles])
    colours = [look.colour for look in styles]
    dots: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "x": np.concatenate(seeds),
        "y": np.repeat(rows + (0.0 if many else 0.25), list(map(len, seeds))),
        "text": [name for name, values in zip(names, seeds) for _ in values],
        "marker": {"color": [c for c, of in zip(colours, seeds) for _ in of], "size": 4 if many else 5, "opacity": 0.5},
        "hovertemplate": "%{text}<br>a seed: %{x:.2f} %<extra></extra>",
    }
    halves = [point["final_accuracy"].get("ci95") for point in study.points]
    said = ["" if half is None else f" ± {100 * half:.2f}" for half in halves]
    means_drawn: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "x": means,
        "y": rows,
        "text": names,
        "customdata": said,
        "error_x": {"array": parts[1], "arrayminus": parts[0], "symmetric": False, "thickness": 1.6, "color": GREY},
        "marker": {"color": colours, "size": 7 if many else 10},
        "hovertemplate": "%{text}<br>mean: %{x:.2f}%{customdata} %<extra></extra>",
    }
    layout = {
        "showlegend": False,
        "height": 90 + height,
        "margin": {"l": 20, "r": 14, "t": 10, "b": 50},
        "xaxis": {"title": {"text": f"{describe_accuracy(study)} (%)"}, "range": limits(means, parts, seeds)},
        "yaxis": axis,
    }
    return Chart("plotly", {"traces": [dots, means_drawn], "layout": layout})


@figure("final_accuracy", caption=_caption, applies=is_known, place=20, title="Final accuracy", chart=_chart)
def final_accuracy(study: ReportData) -> Figure:
    """Draw the final test accuracy of each sweep point: the mean, its 95 % interval, and the seeds as small dots."""
    styles, (means, parts, seeds) = looks(study), statistics(study)
    many = len(styles) > MANY
    columns = -(-len(styles) // IN_A_COLUMN)
    height, size = (0.13, 6.0) if many else (0.36, 9.0)
    in_column = -(-len(styles) // columns)
    drawn, panels = make_panels(columns, columns, 3.6 if many else 7.2, 0.9 + height * in_column, sharex=True)
    for column, axes in enumerate(panels):
        rows = range(column * in_column, min((column + 1) * in_column, len(styles)))
        for p in rows:
            colour, below = styles[p].colour, 0.0 if many else 0.24
            axes.scatter(seeds[p], np.full(len(seeds[p]), p + below), s=size, color=colour, alpha=0.55, linewidths=0)
            whiskers = {"elinewidth": 0.8 if many else 1.7, "capsize": 1.5 if many else 3.5}
            bar = parts[:, p : p + 1]
            axes.errorbar(means[p], p, xerr=bar, fmt="o", markersize=size / 1.5, color=colour, **whiskers)
        labels = [textwrap.fill(styles[p].label, 200 if many else 44) for p in rows]
        axes.set_yticks(list(rows), labels, fontsize=size)
        axes.set_ylim(rows[0] + in_column - 0.4, rows[0] - 0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(f"{describe_accuracy(study)} (%)")
    panels[0].set_xlim(*limits(means, parts, seeds))
    return drawn
