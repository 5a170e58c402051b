"""The panel of a sweep over two settings: the final accuracy as the colour of a cell for each pair of values."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mdfl_jax.report.grid import Scale, left_out, parts, scales
from mdfl_jax.report.panels.final_accuracy import is_known, statistics
from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.settings import spaced
from mdfl_jax.report.style import accuracy_told, for_plotly, has_intervals, ink_on, looks, make_panels, seeds_told

COLOURS = "viridis"
MOST_TEXTS = 12  # with more columns the numbers in the cells would not be legible


def _axes(run: Run) -> tuple[Scale, Scale, list[Scale]] | None:
    """Return the settings of the columns, of the rows, and all others; None if the sweep is no grid.

    The columns are of the numbers with most values, the rows of the other setting with most values.
    """
    found = scales(run)
    if len(found) < 2 or len({tuple(scale.at[p] for scale in found) for p in range(len(run.points))}) < len(run.points):
        return None
    x = max(found, key=lambda scale: (scale.numbers is not None, len(scale.texts)))
    y = max((scale for scale in found if scale is not x), key=lambda scale: len(scale.texts))
    others = [scale for scale in found if scale not in (x, y)]
    cells = np.prod([len(scale.texts) for scale in found])
    is_grid = len(x.texts) > 2 and 2 * len(run.points) >= cells
    return (x, y, others) if is_grid else None


def _cells(x: Scale, y: Scale, members: list[int], values: np.ndarray) -> np.ndarray:
    """Return values [P] of sweep points as an array [rows, columns], with NaN where there is no sweep point."""
    cells = np.full((len(y.texts), len(x.texts)), np.nan)
    for p in members:
        cells[y.at[p], x.at[p]] = values[p]
    return cells


def _caption(run: Run) -> str:
    axes = _axes(run)
    assert axes is not None
    x, y, others = axes
    each = ", one for each combination of the other settings" if others else ""
    interval = "; on the page a cell tells its 95 % interval" if has_intervals(run) else ""
    said = f"{accuracy_told(run).capitalize()} in per cent by {x.name} and {y.name}{each}: {seeds_told(run)}{interval}."
    return said + left_out(run, others)


def _chart(run: Run) -> Chart:
    axes = _axes(run)
    assert axes is not None
    x, y, others = axes
    means, _, _ = statistics(run)
    halves = [point["final_accuracy"].get("ci95") for point in run.points]
    names = [for_plotly(look.label) for look in looks(run)]
    hover = [
        f"{name}<br>{mean:.2f}{'' if half is None else f' ± {100 * half:.2f}'} %"
        for name, mean, half in zip(names, means, halves)
    ]
    drawn: list[dict[str, Any]] = []
    written = len(x.texts) <= MOST_TEXTS
    for title, members in parts(run, others).items():
        texts = [[""] * len(x.texts) for _ in y.texts]
        for p in members:
            texts[y.at[p]][x.at[p]] = hover[p]
        trace: dict[str, Any] = {
            "type": "heatmap",
            "z": _cells(x, y, members, means),
            "customdata": texts,
            "hovertemplate": "%{customdata}<extra></extra>",
            "hoverongaps": False,
            "colorscale": "Viridis",
            "zmin": float(np.nanmin(means)),
            "zmax": float(np.nanmax(means)),
            "showscale": not written and not drawn,
            "xgap": 1,
            "ygap": 1,
        }
        drawn.append(
            {
                "title": for_plotly(title),
                "x": for_plotly(x.name),
                "traces": [trace, *([_numbers(trace["z"], trace["zmin"], trace["zmax"])] if written else [])],
                "xaxis": _ticks(x) | {"showgrid": False, "range": [-0.5, len(x.texts) - 0.5]},
                "yaxis": _ticks(y) | {"range": _rows(y)} | {"showgrid": False, "title": {"text": for_plotly(y.name)}},
            }
        )
    wide = 44 * len(x.texts) + 140 if written else 420
    return Chart("multiples", {"panels": drawn, "height": max(34 * len(y.texts), 120), "width": min(wide, 700)})


def _ticks(scale: Scale) -> dict[str, Any]:
    every = -(-len(scale.texts) // 20)  # so many labels are legible
    places = list(range(0, len(scale.texts), every))
    return {"tickvals": places, "ticktext": [for_plotly(spaced(scale.texts[i])) for i in places], "zeroline": False}


def _rows(scale: Scale) -> list[float]:
    """Return the range of the rows: numbers grow upwards, and other values are listed from the top."""
    low, high = -0.5, len(scale.texts) - 0.5
    return [low, high] if scale.numbers else [high, low]


def _numbers(cells: np.ndarray, low: float, high: float) -> dict[str, Any]:
    """Return plotly's trace of the numbers in the cells, in the colours that are read well on those of the cells."""
    places = np.argwhere(np.isfinite(cells))
    values = [cells[row, column] for row, column in places]
    return {
        "type": "scatter",
        "mode": "text",
        "x": places[:, 1],
        "y": places[:, 0],
        "text": [f"{value:.1f}" for value in values],
        "textfont": {"color": [ink_on((value - low) / max(high - low, 1e-9), COLOURS) for value in values]},
        "hoverinfo": "skip",
        "showlegend": False,
    }


@figure(
    "heat_map",
    caption=_caption,
    applies=lambda run: is_known(run) and _axes(run) is not None,
    place=16,
    title="Accuracy by two settings",
    chart=_chart,
)
def heat_map(run: Run) -> Figure:
    """Draw the final accuracy as a heat map over two varying settings, with small multiples for the others."""
    axes = _axes(run)
    assert axes is not None
    x, y, others = axes
    groups, (means, _, _) = parts(run, others), statistics(run)
    single = len(groups) == 1
    columns = 1 if single else 2 if len(x.texts) > 6 else 3
    width = 7.2 / columns
    drawn, panels = make_panels(len(groups), columns, width, max(0.9 + min(0.32 * len(y.texts), 4.0), 2.3))
    low, high = float(np.nanmin(means)), float(np.nanmax(means))
    image = None
    for panel, (title, members) in zip(panels, groups.items()):
        cells = _cells(x, y, members, means)
        image = panel.imshow(
            cells, cmap=COLOURS, vmin=low, vmax=high, aspect="auto", origin="lower" if y.numbers else "upper"
        )
        panel.set_title(title)
        panel.grid(visible=False)
        for scale, axis in ((x, panel.xaxis), (y, panel.yaxis)):
            ticks = _ticks(scale)
            axis.set_ticks(ticks["tickvals"], [spaced(scale.texts[i]) for i in ticks["tickvals"]])
            axis.set_label_text(scale.name)
        written = width / len(x.texts) > 0.42
        for row, column in np.argwhere(np.isfinite(cells)) if written else ():
            ink = ink_on((cells[row, column] - low) / max(high - low, 1e-9), COLOURS)
            panel.text(column, row, f"{cells[row, column]:.1f}", ha="center", va="center", fontsize=6.5, color=ink)
    if image is not None:
        drawn.colorbar(image, ax=panels, label="test accuracy (%)", aspect=30)
    return drawn
