"""The verdict of a study in sentences: which sweep point is best, by how much, and whether its seeds can tell."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.report import statistics
from mdfl_jax.report.read import chosen
from mdfl_jax.report.settings import point_labels, sweep_axes
from mdfl_jax.report.style import spaced

Point = Mapping[str, Any]
FEW = 3  # so many sweep points are named one by one; of more, only their number is told
MANY = 6  # with more sweep points, some interval may well exclude 0 by chance


class Measure(NamedTuple):
    """A number of each sweep point by which the points are ranked."""

    key: str  # its key in summary.json
    words: str
    sign: int  # 1: larger is better; -1: smaller is better
    scale: float = 1.0  # the printed number is this times the number of the file
    unit: str = ""
    of_gap: str = ""  # the unit of a difference

    def mean(self, point: Point) -> float:
        """Returns the mean over the seeds, or NaN if the point has none."""
        found = (point.get(self.key) or {}).get("mean")
        return float(found) if isinstance(found, int | float) else math.nan

    def told(self, mean: float, half: float | None, unit: str) -> str:
        """Returns a mean with the half-width of its interval, if there is one, as text."""
        digits = ".2f" if self.scale != 1 else ".4g"
        parts = [mean] if half is None else [mean, half]
        return " ± ".join(format(self.scale * part, digits) for part in parts) + unit

    def told_of(self, point: Point) -> str:
        """Returns the mean of a sweep point with its interval as text."""
        return self.told(self.mean(point), (point.get(self.key) or {}).get("ci95"), self.unit)


ACCURACY = Measure("final_accuracy", "final test accuracy", 1, 100.0, " %", " points")
OBJECTIVE = Measure("objective", "final objective", -1)
MEASURES = (ACCURACY, OBJECTIVE, Measure("mean_model_loss", "final loss of the mean model", -1))


class Lead(NamedTuple):
    """By how much one sweep point is better than another: the mean, the half-width of its interval, and its kind."""

    mean: float
    half: float | None
    paired: bool

    @property
    def certain(self) -> bool:
        """Whether the interval excludes 0."""
        return self.half is not None and abs(self.mean) > self.half


def verdict(summary: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """Returns what a study has shown, in sentences; the first one says which sweep point is best.

    The points are ranked by their final accuracy. If a study has no accuracy, they are ranked by the objective, or by
    the loss of the mean model. A sweep with `select` is told by its chosen points.

    Args:
      summary: the content of summary.json.
      config: the resolved base configuration.
    """
    points = [{"baseline": summary.get("baseline"), **point} for point in chosen(summary)["points"]]
    by = config.get("select") if summary.get("selected") else None
    axes = [axis for axis in sweep_axes(points, config) if axis.path != by]
    names = {point["id"]: _quoted(spaced(label)) for point, label in zip(points, point_labels(points, axes))}
    measure = next((of for of in MEASURES if any(np.isfinite(of.mean(point)) for point in points)), None)
    if measure is None:
        return ["No sweep point has a finite result at the end.", *_diverged(points, names)]
    if measure is ACCURACY:
        whose = " of the global model" if config.get("judged") == "global" else ""
        at = summary.get("round")  # of an unfinished study, and of studies that are compared
        words = f"final test accuracy{whose}" if at is None else f"test accuracy{whose} at round {at}"
        meaning = summary.get("accuracy_is")
        measure = measure._replace(words=f"{words} ({meaning})" if meaning else words)
    ranked = [point for point in points if np.isfinite(measure.mean(point))]
    ranked.sort(key=lambda point: -measure.sign * measure.mean(point))
    first = _only(ranked[0], measure, names, len(points)) if len(ranked) == 1 else _best(ranked, measure, names)
    said = [first, *_select(summary, config)]
    if len(ranked) > MANY and measure.told_of(ranked[0]).count("±"):
        said.append("Each interval is of one comparison by itself, not adjusted for the number of points.")
    if measure.key == ACCURACY.key:
        said += [*_target(points, config.get("target"), names), *_objective(points, names)]
    return said + _diverged(points, names)


def lead(best: Point, other: Point, measure: Measure) -> Lead:
    """Returns by how much one sweep point is better than another, with a 95 % Student-t interval.

    The interval is paired by seed. It is Welch's for two studies that share no data, and if no seed is common.
    """
    difference = best.get("difference_to_baseline") or {}
    if measure.key == ACCURACY.key and best.get("baseline") == other["id"] and difference.get("mean") is not None:
        return Lead(difference["mean"], difference.get("ci95"), difference.get("paired", True))
    paired = best.get("study") == other.get("study")
    found = statistics.difference(_by_seed(best, measure), _by_seed(other, measure), paired)
    if found["mean"] is None:
        return Lead(measure.sign * (measure.mean(best) - measure.mean(other)), None, False)
    return Lead(measure.sign * found["mean"], found["ci95"], found["paired"])


def _by_seed(point: Point, measure: Measure) -> dict[int, float]:
    """Returns the values of a sweep point by seed; a point that names no seeds has the same ones as the others."""
    values = [math.nan if value is None else float(value) for value in point[measure.key].get("per_seed") or []]
    return dict(zip(point.get("seeds") or range(len(values)), values))


def _best(ranked: Sequence[Point], measure: Measure, names: Mapping[str, str]) -> str:
    """Returns the sentence about the best of several sweep points."""
    best, others = ranked[0], ranked[1:]
    against = next((point for point in others if point["id"] == best.get("baseline")), others[0])
    is_baseline = best["id"] in (point.get("baseline") for point in others)
    gap = lead(best, against, measure)
    role = "the baseline" if against["id"] == best.get("baseline") else "the runner-up"
    side = "above" if (gap.mean >= 0) == (measure.sign > 0) else "below"
    title = f"{names[best['id']]}{', the baseline,' if is_baseline else ''}"
    clear = all(lead(best, point, measure).certain for point in others)
    claim = "is best" if clear else f"has the {'highest' if measure.sign > 0 else 'lowest'} mean"
    return (
        f"{title} {claim}: {measure.told_of(best)} {measure.words},"
        f" {measure.told(abs(gap.mean), gap.half, measure.of_gap)} {side} {names[against['id']]}, {role};"
        f" {_tell(best, others, measure, names)}."
    )


def _tell(best: Point, others: Sequence[Point], measure: Measure, names: Mapping[str, str]) -> str:
    """Returns the clause that says whether the seeds can tell the best sweep point from the others."""
    leads = [lead(best, point, measure) for point in others]
    seeds = len(best[measure.key].get("per_seed") or ())
    if seeds == 1:
        return "one seed cannot tell whether this is chance"
    these = f"these {seeds} seeds" if seeds else "these seeds"
    kind = "paired " if all(of.paired for of in leads) else ""
    unclear = [point for point, of in zip(others, leads) if not of.certain]
    if not unclear:
        whom = names[others[0]["id"]] if len(others) == 1 else "each of the others"
        intervals = "interval excludes 0" if len(others) == 1 else "intervals exclude 0"
        return f"{these} can tell it from {whom} ({kind}95 % {intervals})"
    if len(unclear) > FEW:
        count = "any" if len(unclear) == len(others) else str(len(unclear))
        return f"{these} cannot tell it from {count} of the other {len(others)} points ({kind}95 % intervals include 0)"
    whom = _listed([names[point["id"]] for point in unclear], "or")
    intervals = "intervals include 0" if len(unclear) > 1 else "interval includes 0"
    return f"{these} cannot tell it from {whom} ({kind}95 % {intervals})"


def _only(point: Point, measure: Measure, names: Mapping[str, str], count: int) -> str:
    """Returns the sentence about the only sweep point that has a result."""
    seeds = len(point[measure.key].get("per_seed") or ())
    over = "one seed, hence no interval" if seeds == 1 else f"mean over {seeds} seeds with its 95 % interval"
    whose = f"Only {names[point['id']]} has a finite result: its" if count > 1 else "The"
    return f"{whose} {measure.words} is {measure.told_of(point)} ({over})."


def _target(points: Sequence[Point], target: float | None, names: Mapping[str, str]) -> list[str]:
    """Returns the sentence that says which sweep points have reached the target, and which one did so first."""
    if target is None:
        return []
    aim = f"the target of {100 * target:g} %"
    reached = {point["id"]: point["rounds_to_target"] for point in points if point.get("rounds_to_target") is not None}
    if not reached:
        return [f"{'It does not reach' if len(points) == 1 else 'None reaches'} {aim}."]
    soonest = min(reached.values())
    if len(points) == 1:
        return [f"It reaches {aim} in round {soonest}."]
    first = [names[name] for name, at in reached.items() if at == soonest]
    who = _listed(first, "and") if len(first) <= FEW else f"{len(first)} of them"
    many = "All" if len(reached) == len(points) else f"{len(reached)} of {len(points)}"
    return [f"{many} reach{'es' if len(reached) == 1 else ''} {aim}, first {who} in round {soonest}."]


def _objective(points: Sequence[Point], names: Mapping[str, str]) -> list[str]:
    """Returns the sentence about the lowest objective, for tasks that minimise one that is no test loss."""
    known = [point for point in points if np.isfinite(OBJECTIVE.mean(point))]
    if len(known) < 2:
        return []
    least = min(known, key=OBJECTIVE.mean)
    return [f"The objective is lowest for {names[least['id']]}: {OBJECTIVE.told_of(least)}."]


def _select(summary: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """Returns the sentence that says how the points of a sweep with `select` were chosen."""
    path = config.get("select")
    if not path or not summary.get("selected"):
        return []
    name, lost = path.rsplit(".", 1)[-1], [entry for entry in summary["selected"] if entry.get("id") is None]
    said = [f"Of each, the {spaced(name)} with the least validation loss is compared."]
    return said + ([f"For {len(lost)}, no {spaced(name)} kept the models finite."] if lost else [])


def _diverged(points: Sequence[Point], names: Mapping[str, str]) -> list[str]:
    """Returns the sentence that names the sweep points whose models diverged."""
    lost = {names[point["id"]]: len(point["diverged"]) for point in points if point.get("diverged")}
    if not lost:
        return []
    if len(lost) > FEW:
        return [f"Models diverged under some seed in {len(lost)} of {len(points)} points."]
    seeds = [f"{name} ({count} seed{'s' if count > 1 else ''})" for name, count in lost.items()]
    return [f"Models diverged in {_listed(seeds, 'and')}."]


def _quoted(name: str) -> str:
    """Returns a name in quotation marks if it has a comma, so that it stays one name within a sentence."""
    return f"“{name}”" if "," in name else name


def _listed(names: Sequence[str], word: str) -> str:
    """Returns names as a list in words: "a, b and c"."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last
