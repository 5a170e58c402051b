"""The panel of rivals: settings by rules or algorithms, coloured by the paired difference to one of these.

Rivals are the values of one setting, such as mobility rules or algorithms. Under every setting of the others they are
compared with each other by seed: at the end, over the whole run, and where they have spent the same.
"""

from typing import NamedTuple

import numpy as np

from mdfl_jax.contrib.panels.cells import Cells, Matrices
from mdfl_jax.core.sweep_text import tied_with
from mdfl_jax.report.quantities import Recorded, recorded
from mdfl_jax.report.registry import figure
from mdfl_jax.report.style import describe_seeds, for_plotly, has_intervals, main_axis
from mdfl_jax.results.axes import Axis, point_labels, spaced
from mdfl_jax.results.results import Results
from mdfl_jax.results.statistics import Differences, simultaneous

LEAST_RIVALS, LEAST_SETTINGS = 3, 2
END = "at the end"
JUDGED, WORST = ("accuracy", "mean_model_accuracy"), "accuracy_min"
EQUAL = {"bits_sent": "after equal bits", "distance_moved": "after equal distance moved"}


class Matrix(NamedTuple):
    """The sweep points of a study by settings and rivals.

    Attributes:
      axis: the setting whose values are the rivals.
      rivals: [C] their names.
      settings: [R] the labels of the settings.
      point: [R, C] int, the sweep point; -1 where there is none.
    """

    axis: Axis
    rivals: list[str]
    settings: list[str]
    point: np.ndarray


def matrix_of(study: Results) -> Matrix | None:
    """Return the matrix of a study; None if it has too few rivals or settings, or twice the same pair of them.

    The rivals are the values of the setting that the baseline names, else of the mobility, else of that with the most
    values, if they are enough.
    """
    main, named = main_axis(study), str(study.config.get("baseline") or "").partition("=")[0].split("+")
    words = [axis for axis in study.axes if not axis.numbers]
    words.sort(key=lambda axis: (axis.path not in named, axis != main, -len(set(axis.texts))))
    return next(filter(None, (_matrix_along(study, axis) for axis in words)), None)


def _matrix_along(study: Results, axis: Axis) -> Matrix | None:
    fields = tied_with(study.config.get("sweep") or "", axis.path)
    tied = [other for other in study.axes if other.path in fields]
    if len(tied) > 1:
        axis = Axis(axis.path, axis.name, tuple(point_labels(study.outcomes, tied)))
    others = [other for other in study.axes if other not in tied]
    if not others:
        return None
    labels = [spaced(label) for label in point_labels(study.outcomes, others)]
    rivals, settings = list(dict.fromkeys(axis.texts)), list(dict.fromkeys(labels))
    pairs = list(zip(map(settings.index, labels), map(rivals.index, axis.texts)))
    too_few = len(rivals) < LEAST_RIVALS or len(settings) < LEAST_SETTINGS
    if too_few or len(set(pairs)) < len(pairs) or 2 * len(pairs) < len(rivals) * len(settings):
        return None
    point = np.full((len(settings), len(rivals)), -1)
    for p, pair in enumerate(pairs):
        point[pair] = p
    return Matrix(axis, rivals, settings, point)


def reference_of(study: Results, matrix: Matrix) -> int:
    """Return the rival that the study itself compares with: that of the baselines if they agree, else the first."""
    ids = {point["id"]: p for p, point in enumerate(study.outcomes)}
    found = {matrix.axis.texts[ids[name]] for point in study.outcomes if (name := point.get("baseline")) in ids}
    return matrix.rivals.index(found.pop()) if len(found) == 1 else 0


def measures(study: Results, matrix: Matrix) -> dict[str, np.ndarray]:
    """Return the measures by which rivals are compared: values [R, C, S] in per cent, by the name of the measure.

    The accuracy after equal bits or distance is interpolated between evaluations, where the rival of the setting that
    sent or moved least in the same seed had ended. Rivals that sent or moved nothing are not compared by it.
    """
    found = recorded(study)
    accuracy = next((found.values[key] for key in _judged(study) if key in found.values), None)
    if accuracy is None:
        return {}
    last = [study.end(p) for p in range(len(study.points))]
    has_result = np.isfinite(np.stack([accuracy[p, :, at] for p, at in enumerate(last)]))  # a diverged run has none
    accuracy = np.where(has_result[..., None], accuracy, np.nan)
    end = np.stack([accuracy[p, :, at] for p, at in enumerate(last)])
    later = accuracy[..., 1:]  # the first evaluation is before any round
    named = {END: end, "mean over the evaluations": finite_mean(later)}
    if WORST in found.values and _judged(study)[0] == JUDGED[0]:
        named["worst client at the end"] = np.stack([found.values[WORST][p, :, at] for p, at in enumerate(last)])
    named |= {words: _at_equal(matrix, found, accuracy, key) for key, words in EQUAL.items() if key in found.values}
    cells = {name: _of_cells(matrix, values) for name, values in named.items()}
    return {name: 100 * values for name, values in cells.items() if np.isfinite(values).any()}


def _judged(study: Results) -> tuple[str, ...]:
    return JUDGED[::-1] if study.config.get("judged") == "global" else JUDGED[:1]


def _of_cells(matrix: Matrix, values: np.ndarray) -> np.ndarray:
    return np.where(matrix.point[..., None] >= 0, values[matrix.point], np.nan)


def finite_mean(values: np.ndarray) -> np.ndarray:
    """Return the mean over the last axis of values that are finite; NaN where none is."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0).sum(axis=-1) / known.sum(axis=-1)


def _at_equal(matrix: Matrix, found: Recorded, accuracy: np.ndarray, key: str) -> np.ndarray:
    """Return the accuracy [P, S] where all rivals of a setting have spent the same of a quantity that grows."""
    spent = found.values[key]
    made = np.full(accuracy.shape[:2], np.nan)
    total = np.nanmax(np.where(np.isfinite(spent), spent, 0.0), axis=-1)  # [P, S]
    for row in matrix.point:
        members = [p for p in row if p >= 0]
        for s in range(accuracy.shape[1]):
            ran = [p for p in members if total[p, s] > 0 and np.isfinite(accuracy[p, s]).any()]
            for p in ran:
                known = np.isfinite(accuracy[p, s]) & np.isfinite(spent[p, s])
                made[p, s] = np.interp(min(total[q, s] for q in ran), spent[p, s, known], accuracy[p, s, known])
    return made


def paired_differences(values: np.ndarray, reference: int) -> Differences:
    """Return the differences to a rival, paired by seed, with simultaneous intervals over all settings and rivals.

    The values are [R, C, S], as `measures` gives them. `mean`, `half` and `alone` of the result are [R, C], with NaN
    for the reference itself.
    """
    rows, columns, seeds = values.shape
    others = [column for column in range(columns) if column != reference]
    gaps = values[:, others] - values[:, [reference]]
    found = simultaneous(gaps.reshape(-1, seeds).T)

    def placed(of: np.ndarray) -> np.ndarray:
        whole = np.full((rows, columns), np.nan)
        whole[:, others] = of.reshape(rows, -1)
        return whole

    mean, half, alone, is_median = map(placed, (found.mean, found.half, found.alone, found.is_median))
    return Differences(mean, half, alone, found.factor, is_median == 1)


def tally(found: Differences) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count for each rival [C] the settings in which it is better than the reference, worse, and compared at all.

    Better and worse are those whose whole simultaneous interval is on one side of zero.
    """
    with np.errstate(invalid="ignore"):
        better, worse = found.mean - found.half > 0, found.mean + found.half < 0
    return better.sum(axis=0), worse.sum(axis=0), np.isfinite(found.half).sum(axis=0)


LEAST_RANGE = 2.0  # points; smaller differences are not in full colour
IN_COLOUR = 0.9  # of the differences; the others are beyond the colours, so that one far behind leaves no other pale
MOST_ROWS = 60  # more settings are in the table alone


class Compared(NamedTuple):
    """The rivals of a study.

    Attributes:
      matrix: the sweep points.
      values: [R, C, S] by the name of the measure.
      reference: the index of the rival that the study itself compares with.
    """

    matrix: Matrix
    values: dict[str, np.ndarray]
    reference: int


def _compared(study: Results) -> Compared | None:
    matrix = matrix_of(study) if has_intervals(study) else None
    values = measures(study, matrix) if matrix else {}
    return Compared(matrix, values, reference_of(study, matrix)) if matrix and values else None


def _tally_in_words(matrix: Matrix, found: Differences) -> str:
    """Return in how many settings each rival is better than the reference, the best first."""
    better, worse, of = tally(found)
    order = sorted((c for c in range(len(of)) if of[c]), key=lambda c: (-(better[c] - worse[c]), -better[c]))
    said = [f"{spaced(matrix.rivals[c])} is better in {better[c]} and worse in {worse[c]} of {of[c]}" for c in order]
    return "; ".join(said)


def _caption(study: Results, shown: Compared) -> str:
    matrix, values, reference = shown
    first = paired_differences(next(iter(values.values())), reference)
    medians = int(first.is_median.sum())
    said = f" {medians} of {np.isfinite(first.mean).sum()} are medians with sign-test intervals: a few seeds collapse."
    return (
        f"Difference to {spaced(matrix.rivals[reference])} in points of accuracy {END}, paired by seed:"
        f" {describe_seeds(study)}."
        " All 95 % intervals of the matrix hold together; a bold number's interval is on one side of zero."
        f"{said if medians else ''}"
        f" {_tally_in_words(matrix, first)}."
    )


@figure("rivals", of=_compared, caption=_caption, place=11, title="Rivals, setting by setting")
def rivals(study: Results, shown: Compared) -> Matrices:
    """Draw the paired differences to the baseline as a matrix of settings by rivals, one for each measure."""
    matrix, values, reference = shown
    settings, rivals = matrix.settings[:MOST_ROWS], list(map(spaced, matrix.rivals))
    others = [c for c in range(len(rivals)) if c != reference]
    found = {name: paired_differences(array, reference) for name, array in values.items()}
    sizes = np.abs(np.concatenate([of.mean[:, others].ravel() for of in found.values()]))
    largest = max(LEAST_RANGE, float(np.nanquantile(sizes, IN_COLOUR)))

    def cells(of: Differences, level: np.ndarray) -> Cells:
        def told(r: int, c: int) -> str:
            sizes = f"{of.mean[r, c]:.2f} ± {of.half[r, c]:.2f} (by itself ± {of.alone[r, c]:.2f}) points"
            sizes += ", median" if of.is_median[r, c] else ""
            parts = (settings[r], f"{rivals[c]}: {level[r, c]:.2f} %", f"over {rivals[reference]}: {sizes}")
            return "<br>".join(map(for_plotly, parts))

        texts = [[told(r, c) for c in others] for r in range(len(settings))]
        mean, half = of.mean[:MOST_ROWS, others], of.half[:MOST_ROWS, others]
        names, label = [rivals[c] for c in others], f"over {rivals[reference]} (points)"
        return Cells(mean, half, settings, names, label, (-largest, largest), "RdBu", signed=True, texts=texts)

    matrices = {name: cells(of, finite_mean(values[name])) for name, of in found.items()}
    size = 7.2 / min(2, len(found)), min(1.4 + 0.24 * len(settings), 9.5)
    return Matrices("", "", matrices, size, 2, (min(60 * len(others) + 160, 700), 26 * len(settings) + 60))
