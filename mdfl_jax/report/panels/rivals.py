"""The panel of rivals: settings by rules or algorithms, coloured by the paired difference to one of these."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mdfl_jax.report.read import Run, kept
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.rivals import END, Matrix, differences, matrix_of, mean_of_known, measures, reference_of, tally
from mdfl_jax.report.settings import spaced
from mdfl_jax.report.simultaneous import Differences
from mdfl_jax.report.style import for_plotly, has_intervals, ink_on, make_panels, seeds_told

COLOURS = "RdBu"
LEAST_RANGE = 2.0  # points; smaller differences are not in full colour
IN_COLOUR = 0.9  # of the differences; the others are beyond the colours, so that one far behind leaves no other pale
MOST_ROWS = 60  # of the figure for files


@kept
def _found(run: Run) -> tuple[Matrix, dict[str, np.ndarray]] | None:
    matrix = matrix_of(run)
    values = measures(run, matrix) if matrix else {}
    return (matrix, values) if matrix and values else None


def _told(matrix: Matrix, found: Differences) -> str:
    """Return in how many settings each rival is better than the reference, the best first."""
    better, worse, of = tally(found)
    order = sorted((c for c in range(len(of)) if of[c]), key=lambda c: (-(better[c] - worse[c]), -better[c]))
    said = [f"{spaced(matrix.rivals[c])} better in {better[c]}, worse in {worse[c]} of {of[c]}" for c in order]
    return "; ".join(said)


def _first(run: Run) -> tuple[Matrix, int, Differences]:
    """Return the matrix, the study's own reference, and the differences to it in the first measure."""
    shown = _found(run)
    assert shown is not None
    matrix, values = shown
    reference = reference_of(run, matrix)
    return matrix, reference, differences(values[next(iter(values))], reference)


def _caption(run: Run) -> str:
    matrix, reference, first = _first(run)
    return (
        f"Difference to {spaced(matrix.rivals[reference])} in points of accuracy {END}, paired by seed:"
        f" {seeds_told(run)}."
        " All 95 % intervals of the matrix hold together; a bold number's interval is on one side of zero."
        f" {_told(matrix, first)}."
    )


def _chart(run: Run) -> Chart:
    shown = _found(run)
    assert shown is not None
    matrix, values = shown
    of_measures: list[dict[str, Any]] = []
    for name, array in values.items():
        by_reference = []
        for reference in range(len(matrix.rivals)):
            found = differences(array, reference)
            told = _told(matrix, found)
            by_reference.append({"mean": found.mean, "half": found.half, "alone": found.alone, "told": told})
        of_measures.append({"name": name, "references": by_reference, "level": mean_of_known(array)})
    return Chart(
        "rivals",
        {
            "rivals": [for_plotly(spaced(name)) for name in matrix.rivals],
            "settings": [for_plotly(name) for name in matrix.settings],
            "points": matrix.point,
            "reference": reference_of(run, matrix),
            "measures": of_measures,
            "leastRange": LEAST_RANGE,
            "inColour": IN_COLOUR,
        },
    )


@figure(
    "rivals",
    caption=_caption,
    applies=lambda run: has_intervals(run) and _found(run) is not None,
    place=11,
    title="Rivals, setting by setting",
    chart=_chart,
)
def rivals(run: Run) -> Figure:
    """Draw the paired differences to the baseline as a matrix of settings by rivals."""
    matrix, reference, found = _first(run)
    columns = [c for c in range(len(matrix.rivals)) if c != reference]
    mean, half = found.mean[:MOST_ROWS, columns], found.half[:MOST_ROWS, columns]
    drawn, (axes,) = make_panels(1, 1, 7.2, min(1.4 + 0.24 * len(mean), 9.5))
    largest = max(LEAST_RANGE, float(np.nanquantile(np.abs(mean), IN_COLOUR)))
    image = axes.imshow(mean, cmap=COLOURS, vmin=-largest, vmax=largest, aspect="auto")
    axes.grid(visible=False)
    axes.set_xticks(range(len(columns)), [spaced(matrix.rivals[c]) for c in columns], rotation=30, ha="right")
    axes.set_yticks(range(len(mean)), matrix.settings[:MOST_ROWS], fontsize=6)
    for row, column in np.argwhere(np.isfinite(mean)):
        value = mean[row, column]
        sure = abs(value) > half[row, column]
        ink = ink_on((np.clip(value / largest, -1, 1) + 1) / 2, COLOURS)
        weight = "bold" if sure else "normal"
        axes.text(column, row, f"{value:+.1f}", ha="center", va="center", fontsize=6, color=ink, weight=weight)
    drawn.colorbar(image, ax=axes, label=f"over {spaced(matrix.rivals[reference])} (points)", aspect=30, extend="both")
    return drawn
