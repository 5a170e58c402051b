"""A sweep over rivals and settings as a matrix: each rival's paired difference to a reference, setting by setting.

Rivals are the values of a setting that is no number, such as mobility rules or algorithms. All differences of a measure
to one reference are one family, whose intervals hold together (`mdfl_jax.report.simultaneous`).
"""

from typing import NamedTuple

import numpy as np

from mdfl_jax.core.outcomes import tied_with
from mdfl_jax.report.read import Run
from mdfl_jax.report.recorded import Recorded, recorded
from mdfl_jax.report.settings import Axis, point_labels
from mdfl_jax.report.simultaneous import Differences, simultaneous
from mdfl_jax.report.style import main_axis, spaced

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


def matrix_of(run: Run) -> Matrix | None:
    """Return the matrix of a study; None if it has too few rivals or settings, or twice the same pair of them.

    The rivals are the values of the setting that the baseline names, else of the mobility, else of that with the most
    values, if they are enough.
    """
    main, named = main_axis(run), run.config.get("baseline") or ""
    words = [axis for axis in run.axes if not axis.numbers]
    words.sort(key=lambda axis: (f"{axis.path}=" not in named, axis is not main, -len(set(axis.texts))))
    return next(filter(None, (_matrix_along(run, axis) for axis in words)), None)


def _matrix_along(run: Run, axis: Axis) -> Matrix | None:
    fields = tied_with(run.config.get("sweep") or "", axis.path)
    tied = [other for other in run.axes if other.path in fields]
    if len(tied) > 1:
        axis = Axis(axis.path, axis.name, tuple(point_labels(run.points, tied)))
    others = [other for other in run.axes if other not in tied]
    if not others:
        return None
    labels = [spaced(label) for label in point_labels(run.points, others)]
    rivals, settings = list(dict.fromkeys(axis.texts)), list(dict.fromkeys(labels))
    pairs = list(zip(map(settings.index, labels), map(rivals.index, axis.texts)))
    too_few = len(rivals) < LEAST_RIVALS or len(settings) < LEAST_SETTINGS
    if too_few or len(set(pairs)) < len(pairs) or 2 * len(pairs) < len(rivals) * len(settings):
        return None
    point = np.full((len(settings), len(rivals)), -1)
    for p, pair in enumerate(pairs):
        point[pair] = p
    return Matrix(axis, rivals, settings, point)


def reference_of(run: Run, matrix: Matrix) -> int:
    """Return the rival that the study itself compares with: that of the baselines if they agree, else the first."""
    ids = {point["id"]: p for p, point in enumerate(run.points)}
    found = {matrix.axis.texts[ids[name]] for point in run.points if (name := point.get("baseline")) in ids}
    return matrix.rivals.index(found.pop()) if len(found) == 1 else 0


def measures(run: Run, matrix: Matrix) -> dict[str, np.ndarray]:
    """Return what the rivals are compared by: values [R, C, S] in per cent by the name of the measure.

    The accuracy after equal bits or distance is interpolated between evaluations, where the rival of the setting that
    sent or moved least in the same seed had ended. Rivals that sent or moved nothing are not compared by it.
    """
    found = recorded(run)
    accuracy = next((found.values[key] for key in _judged(run) if key in found.values), None)
    if accuracy is None:
        return {}
    last = [run.end(p) for p in range(len(run.points))]
    has_result = np.isfinite(np.stack([accuracy[p, :, at] for p, at in enumerate(last)]))  # a diverged run has none
    accuracy = np.where(has_result[..., None], accuracy, np.nan)
    end = np.stack([accuracy[p, :, at] for p, at in enumerate(last)])
    later = accuracy[..., 1:]  # the first evaluation is before any round
    named = {END: end, "mean over the evaluations": mean_of_known(later)}
    if WORST in found.values and _judged(run)[0] == JUDGED[0]:
        named["worst client at the end"] = np.stack([found.values[WORST][p, :, at] for p, at in enumerate(last)])
    named |= {words: _at_equal(matrix, found, accuracy, key) for key, words in EQUAL.items() if key in found.values}
    cells = {name: _of_cells(matrix, values) for name, values in named.items()}
    return {name: 100 * values for name, values in cells.items() if np.isfinite(values).any()}


def _judged(run: Run) -> tuple[str, ...]:
    return JUDGED[::-1] if run.config.get("judged") == "global" else JUDGED[:1]


def _of_cells(matrix: Matrix, values: np.ndarray) -> np.ndarray:
    return np.where(matrix.point[..., None] >= 0, values[matrix.point], np.nan)


def mean_of_known(values: np.ndarray) -> np.ndarray:
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


def differences(values: np.ndarray, reference: int) -> Differences:
    """Return the differences to a rival, paired by seed, with simultaneous intervals over all settings and rivals.

    Args:
      values: [R, C, S], as `measures` gives them.
      reference: the index of the rival that all others are compared with.

    Returns:
      `mean`, `half` and `alone` of shape [R, C], NaN for the reference itself.
    """
    rows, columns, seeds = values.shape
    others = [column for column in range(columns) if column != reference]
    gaps = values[:, others] - values[:, [reference]]
    found = simultaneous(gaps.reshape(-1, seeds).T)

    def placed(of: np.ndarray) -> np.ndarray:
        whole = np.full((rows, columns), np.nan)
        whole[:, others] = of.reshape(rows, -1)
        return whole

    return Differences(placed(found.mean), placed(found.half), placed(found.alone), found.factor)


def tally(found: Differences) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each rival [C] in how many settings it is better than the reference, worse, and compared at all.

    Better and worse are those whose whole simultaneous interval is on one side of zero.
    """
    with np.errstate(invalid="ignore"):
        better, worse = found.mean - found.half > 0, found.mean + found.half < 0
    return better.sum(axis=0), worse.sum(axis=0), np.isfinite(found.half).sum(axis=0)
