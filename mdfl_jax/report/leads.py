"""By how much one sweep point is better than another: the numbers behind the verdict."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mdfl_jax.report import statistics
from mdfl_jax.report.diverged import on_seeds

Point = Mapping[str, Any]
Paired = Callable[[str, str], bool]  # whether the runs of two sweep points, given by their ids, are paired by seed


class Measure(NamedTuple):
    """A number of each sweep point by which the points are ranked."""

    key: str  # its key in summary.json
    words: str
    sign: int  # 1: larger is better; -1: smaller is better
    scale: float = 1.0  # the printed number is this times the number of the file
    unit: str = ""
    of_gap: str = ""  # the unit of a difference

    def mean(self, point: Point) -> float:
        """Return the mean over the seeds, or NaN if the point has none."""
        found = (point.get(self.key) or {}).get("mean")
        return float(found) if isinstance(found, int | float) else math.nan

    def told(self, mean: float, half: float | None, unit: str) -> str:
        """Return a mean with the half-width of its interval, if there is one, as text."""
        digits = ".2f" if self.scale != 1 else ".4g"
        parts = [mean] if half is None else [mean, half]
        return " ± ".join(format(self.scale * part, digits) for part in parts) + unit

    def told_of(self, point: Point) -> str:
        """Return the mean of a sweep point with its interval as text, and with its seeds if some have no result."""
        found = point.get(self.key) or {}
        return self.told(self.mean(point), found.get("ci95"), self.unit) + on_seeds(found)


ACCURACY = Measure("final_accuracy", "final test accuracy", 1, 100.0, " %", " points")
OBJECTIVE = Measure("objective", "final objective", -1)
MEASURES = (ACCURACY, OBJECTIVE, Measure("mean_model_loss", "final loss of the mean model", -1))


class Lead(NamedTuple):
    """By how much one sweep point is better than another: the mean and the half-width of its interval."""

    mean: float
    half: float | None
    pairs: int | None = None  # the number of common seeds; None if the runs are not paired by seed
    partly: bool = False  # whether a point has seeds that the other one lacks, so that the mean is not over all

    @property
    def certain(self) -> bool:
        """Whether the whole interval is above 0."""
        return self.half is not None and self.mean > self.half

    @property
    def unclear(self) -> bool:
        """Whether the interval includes 0, or is not known."""
        return self.half is None or abs(self.mean) <= self.half

    @property
    def contrary(self) -> bool:
        """Whether the common seeds alone put the other point first."""
        return self.partly and self.mean < 0


def every(one: str, other: str) -> bool:
    """Say of any two sweep points that they are paired by seed, as within one study."""
    return True


def lead(best: Point, other: Point, measure: Measure, paired: Paired = every) -> Lead:
    """Return by how much one sweep point is better than another, with a 95 % Student-t interval.

    The interval is paired by seed, over the seeds that both points have. It is Welch's if the points are not paired, as
    for two studies that share no data, and if no seed is common.
    """
    one, two = _by_seed(best, measure), _by_seed(other, measure)
    found = statistics.difference(one, two, paired(best["id"], other["id"]))
    if found["mean"] is None:
        return Lead(measure.sign * (measure.mean(best) - measure.mean(other)), None)
    partly = found["paired"] and one.keys() != two.keys()
    return Lead(measure.sign * found["mean"], found["ci95"], found["seeds"], partly)


def _by_seed(point: Point, measure: Measure) -> dict[int, float]:
    """Return the values of a sweep point by seed, without those of runs that have diverged.

    A point that names no seeds has the same ones as the others.
    """
    values = point[measure.key].get("per_seed") or []
    by_seed = zip(point.get("seeds") or range(len(values)), values)
    return {seed: float(value) for seed, value in by_seed if value is not None and not math.isnan(float(value))}
