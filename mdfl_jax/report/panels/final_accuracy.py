"""The panel of the final accuracies: the mean over the seeds with its interval, and each seed, by sweep point."""

from collections.abc import Sequence

import numpy as np

from mdfl_jax.report.picture import DISC, DOT, MANY_ROWS, Picture, Plot, Scale, Series
from mdfl_jax.report.registry import figure
from mdfl_jax.report.sheet import percent_cell
from mdfl_jax.report.style import describe_accuracy, describe_seeds, for_plotly, has_intervals, looks, percent_limits
from mdfl_jax.results.results import Results

IN_A_COLUMN = 50  # so many points are in a column


def is_known(study: Results) -> bool:
    """Tell whether any sweep point has a final accuracy. Some tasks have none, and some studies have none yet."""
    return any(point["final_accuracy"].get("mean") is not None for point in study.outcomes)


def _caption(study: Results) -> str:
    said = f"{describe_accuracy(study).capitalize()}: {describe_seeds(study)}"
    many = has_intervals(study)
    return said + (" (large dot) with its 95 % Student-t interval; small dots: the seeds." if many else ".")


def statistics(study: Results) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return in per cent the means [P], their intervals below and above [2, P], and the seeds of each sweep point.

    The interval ends at 0 and 100 %: a Student-t interval of few seeds may reach beyond what is possible.
    """
    found = [point["final_accuracy"] for point in study.outcomes]
    means = 100 * np.array([of.get("mean") for of in found], float)
    halves = 100 * np.nan_to_num(np.array([of.get("ci95") for of in found], float))
    seeds = [100 * np.array(of.get("per_seed") or [], float) for of in found]
    return means, np.stack([np.minimum(halves, means), np.minimum(halves, 100 - means)]), seeds


@figure("final_accuracy", caption=_caption, applies=is_known, place=20, title="Final accuracy")
def final_accuracy(study: Results) -> Picture:
    """Draw the final test accuracy of each sweep point: the mean, its 95 % interval, and the seeds as small dots."""
    styles, (means, parts, seeds) = looks(study), statistics(study)
    many, columns = len(styles) > MANY_ROWS, -(-len(styles) // IN_A_COLUMN)
    in_column = -(-len(styles) // columns)
    ends_of_all = percent_limits(np.concatenate([means - parts[0], means + parts[1], *seeds]))
    scale = Scale(f"{describe_accuracy(study)} (%)", ends=ends_of_all)

    def plot(points: Sequence[int]) -> Plot:
        series = []
        for row, p in enumerate(points):
            look, found = styles[p], study.outcomes[p]["final_accuracy"]
            dots = np.full(len(seeds[p]), row + (0.0 if many else 0.25))
            told = [f"{for_plotly(look.label)}<br>a seed: {value:.2f} %" for value in seeds[p]]
            series.append(Series(look.label, look.colour, dots, seeds[p], None, None, None, DOT, texts=told))
            said = f"{for_plotly(look.label)}<br>mean: {percent_cell(found).text} %"
            ends = means[p] - parts[0, p : p + 1], means[p] + parts[1, p : p + 1]
            series.append(Series(look.label, look.colour, [row], means[p : p + 1], *ends, None, DISC, texts=[said]))
        return Plot("", Scale("point"), scale, series, rows=[styles[p].label for p in points])

    starts = range(0, len(styles), in_column)
    plots = [plot(range(start, min(start + in_column, len(styles)))) for start in starts]
    size = (3.6 if many else 7.2, 0.9 + (0.13 if many else 0.36) * in_column)
    return Picture(plots, size, columns, shared=True)
