"""The verdict of a study in sentences: which sweep point is best, by how much, and whether its seeds can tell."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core.outcomes import FEWEST, enumerated, known_seeds
from mdfl_jax.report.sheet import on_seeds
from mdfl_jax.report.tables import by_seed, cause_of_divergence, seeds_in_words
from mdfl_jax.results import statistics
from mdfl_jax.results.results import Results

_Point = Mapping[str, Any]
Paired = Callable[[str, str], bool]  # whether the runs of two sweep points, given by their ids, are paired by seed


class Measure(NamedTuple):
    """A number of each sweep point by which the points are ranked."""

    key: str  # its key in summary.json
    words: str
    sign: int  # 1: larger is better; -1: smaller is better
    scale: float = 1.0  # the printed number is this times the number of the file
    unit: str = ""
    of_gap: str = ""  # the unit of a difference

    def mean(self, point: _Point) -> float:
        """Return the mean over the seeds, or NaN if the point has none."""
        found = (point.get(self.key) or {}).get("mean")
        return float(found) if isinstance(found, int | float) else math.nan

    def format(self, mean: float, half: float | None, unit: str) -> str:
        """Return a mean with the half-width of its interval, if there is one, as text."""
        digits = ".2f" if self.scale != 1 else ".4g"
        parts = [mean] if half is None else [mean, half]
        return " ± ".join(format(self.scale * part, digits) for part in parts) + unit

    def format_point(self, point: _Point) -> str:
        """Return the mean of a sweep point with its interval as text, and with its seeds if some have no result."""
        found = point.get(self.key) or {}
        return self.format(self.mean(point), found.get("ci95"), self.unit) + on_seeds(found)


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


def find_lead(best: _Point, other: _Point, measure: Measure, paired: Paired) -> Lead:
    """Return by how much one sweep point is better than another, with a 95 % Student-t interval.

    The interval is paired by seed, over the seeds that both points have. It is Welch's if the points are not paired, as
    for two studies that share no data, and if no seed is common.
    """
    one, two = by_seed(best, measure.key), by_seed(other, measure.key)
    found = statistics.difference(one, two, paired(best["id"], other["id"]))
    if found["mean"] is None:
        return Lead(measure.sign * (measure.mean(best) - measure.mean(other)), None)
    partly = found["paired"] and one.keys() != two.keys()
    return Lead(measure.sign * found["mean"], found.get("ci95"), found["seeds"], partly)


_FEW = 3  # so many sweep points are named one by one; of more, only their number is given
_MANY = 6  # with more sweep points, some interval may well exclude 0 by chance


Leads = Sequence[tuple[_Point, Lead]]  # the other points, and the lead of the best one over each


def verdict(study: Results) -> list[str]:
    """Return what a study has shown, in sentences; the first one says which sweep point is best.

    The points are ranked by their final accuracy. If a study has no accuracy, they are ranked by the objective, or by
    the loss of the mean model. Of a sweep with `select` only the chosen points count.
    """
    study = study.chosen()
    summary, config, paired = study.summary, study.config, study.pairing
    points = study.outcomes
    names = {name: _quoted(label) for name, label in zip(study.points, study.labels)}
    measure = next((of for of in MEASURES if any(np.isfinite(of.mean(point)) for point in points)), None)
    values = {name: partial(study.value, p) for p, name in enumerate(study.points)}
    lost = _diverged(points, names, lambda point: cause_of_divergence(values[point["id"]]))
    if measure is None:
        return ["No sweep point has a finite result at the end.", *lost]
    if measure is ACCURACY:
        whose = " of the global model" if config.get("judged") == "global" else ""
        at = summary.get("round")  # of an unfinished study, and of studies that are compared
        words = f"final test accuracy{whose}" if at is None else f"test accuracy{whose} at round {at}"
        meaning = summary.get("accuracy_is")
        measure = measure._replace(words=f"{words} ({meaning})" if meaning else words)
    ranked = [point for point in points if np.isfinite(measure.mean(point))]
    ranked.sort(key=lambda point: -measure.sign * measure.mean(point))
    tells_power = bool(summary.get("power")) and measure.key == ACCURACY.key
    if len(ranked) == 1:
        said = [_only(ranked[0], measure, names, len(points))]
    else:
        leads = [(point, find_lead(ranked[0], point, measure, paired)) for point in ranked[1:]]
        said = [_best(ranked[0], leads, measure, names)]
        said += filter(None, [statistics.power_in_words(summary["power"])]) if tells_power else []
        said += _contrary(leads, measure, names)
    if len(ranked) > _MANY and measure.format_point(ranked[0]).count("±"):
        said.append("Each interval is of one comparison by itself, not adjusted for the number of points.")
    if measure.key == ACCURACY.key:
        said += _target(points, config.get("target"), names)
    return said + lost


def _best(best: _Point, leads: Leads, measure: Measure, names: Mapping[str, str]) -> str:
    """Return the sentences about the best of several sweep points; the first one says so if no difference was found."""
    against, gap = next(((point, of) for point, of in leads if point["id"] == best["baseline"]), leads[0])
    is_baseline = best["id"] in (point["baseline"] for point, _ in leads)
    role = "the baseline" if against["id"] == best["baseline"] else "the runner-up"
    over = f", over their {_counted(gap)}" if gap.partly else ""
    title = f"{names[best['id']]}{', the baseline,' if is_baseline else ''}"
    has = f"has the {'highest' if measure.sign > 0 else 'lowest'} mean"
    told = _tell(best, leads, measure, names)
    if all(of.unclear and of.half is not None for _, of in leads):
        size = measure.format(gap.mean, gap.half, measure.of_gap)
        other = names[against["id"]] if len(leads) == 1 else "any other sweep point"
        whom = "" if len(leads) == 1 else f"{names[best['id']]} minus {names[against['id']]}: "
        none = f"No difference was found between {names[best['id']]} and {other}"
        return f"{none} ({whom}{size}{over}; {told}). {title} {has}: {_mean(best, measure)}."
    claim = "is best" if all(of.certain for _, of in leads) else has
    beside = f"{_gap(gap, measure)} {names[against['id']]}, {role}{over}"
    return f"{title} {claim}: {_mean(best, measure)}, {beside}; {told}."


def _mean(point: _Point, measure: Measure) -> str:
    return f"{measure.format_point(point)} {measure.words}"


def _gap(gap: Lead, measure: Measure) -> str:
    """Return a lead as text: how many points above, or below."""
    side = "above" if (gap.mean >= 0) == (measure.sign > 0) else "below"
    return f"{measure.format(abs(gap.mean), gap.half, measure.of_gap)} {side}"


def _counted(gap: Lead) -> str:
    return "one common seed" if gap.pairs == 1 else f"{gap.pairs} common seeds"


def _tell(best: _Point, leads: Leads, measure: Measure, names: Mapping[str, str]) -> str:
    """Return the clause that says from which of the other sweep points the best one differs significantly."""
    counts = {of.pairs for _, of in leads if of.pairs is not None}
    if all(of.pairs is not None for _, of in leads):
        common = "common " if any(of.partly for _, of in leads) else ""
        kind, seeds = "paired ", f"{min(counts)} to {max(counts)}" if len(counts) > 1 else str(max(counts))
    else:
        count = known_seeds(best[measure.key])
        common, kind, seeds = "", "", str(count) if count and not counts - {count} else ""
    if seeds.isdigit() and int(seeds) < FEWEST:
        few = "one seed is" if seeds == "1" else "two seeds are"
        return f"{few.replace(' ', f' {common}', 1)} too few for an interval"
    by = f"{kind}95 % interval{'s' * (len(leads) > 1)}{f', {seeds} {common}seeds' if seeds else ''}"
    unclear = [point for point, of in leads if of.unclear]
    if len(unclear) == len(leads):
        return by
    if not unclear and any(of.contrary for _, of in leads):
        return f"the {common}seeds contradict this order ({by})"
    if not unclear:
        return f"significantly better{' than all others' if len(leads) > 1 else ''} ({by})"
    if len(unclear) > _FEW:
        return f"no significant difference from {len(unclear)} of the other {len(leads)} points ({by})"
    return f"no significant difference from {enumerated([names[point['id']] for point in unclear], 'or')} ({by})"


def _contrary(leads: Leads, measure: Measure, names: Mapping[str, str]) -> list[str]:
    """Return the sentence that names the points which are better than the first one over the seeds that both have."""
    against = [(point, of) for point, of in leads if of.contrary]
    if not against:
        return []
    whom = [f"{names[point['id']]} (by {measure.format(-of.mean, of.half, measure.of_gap)})" for point, of in against]
    who = enumerated(whom) if len(whom) <= _FEW else f"{len(whom)} points"
    verb = "is" if len(whom) == 1 else "are"
    return [f"The means are over different seeds: over the common ones, {who} {verb} better."]


def _only(point: _Point, measure: Measure, names: Mapping[str, str], count: int) -> str:
    """Return the sentence about the only sweep point that has a result."""
    seeds = known_seeds(point[measure.key])
    over = "one seed, hence no interval" if seeds == 1 else f"mean over {seeds} seeds with its 95 % interval"
    whose = f"Only {names[point['id']]} has a finite result: its" if count > 1 else "The"
    return f"{whose} {measure.words} is {measure.format_point(point)} ({over})."


def _target(points: Sequence[_Point], target: float | None, names: Mapping[str, str]) -> list[str]:
    """Return the sentence that says which sweep points have reached the target, and which one did so first."""
    if target is None:
        return []
    aim = f"the target of {100 * target:g} %"
    reached = {point["id"]: point["rounds_to_target"] for point in points if point.get("rounds_to_target") is not None}
    if not reached:
        return [f"No sweep point reaches {aim}."]
    soonest = min(reached.values())
    if len(points) == 1:
        return [f"It reaches {aim} in round {soonest}."]
    first = [names[name] for name, at in reached.items() if at == soonest]
    who = enumerated(first) if len(first) <= _FEW else f"{len(first)} of them"
    many = "All" if len(reached) == len(points) else f"{len(reached)} of {len(points)}"
    return [f"{many} sweep points reach{'es' if len(reached) == 1 else ''} {aim}, first {who} in round {soonest}."]


def _diverged(points: Sequence[_Point], names: Mapping[str, str], why: Callable[[_Point], str]) -> list[str]:
    """Return the sentences that name the sweep points whose models diverged, and what may be the cause."""
    lost = [point for point in points if point.get("diverged")]
    if not lost:
        return []
    if len(lost) > _FEW:
        return [f"Models diverged under some seed in {len(lost)} of {len(points)} points; these runs are in no mean."]
    whom = [f"{names[point['id']]} ({seeds_in_words(point)})" for point in lost]
    causes = [f"{names[point['id']]}: {cause}" for point in lost if (cause := why(point))]
    said = [f"Models diverged in {enumerated(whom)}; these runs are in no mean."]
    return said + ([f"What may be the cause: {'; '.join(causes)}."] if causes else [])


def _quoted(name: str) -> str:
    """Return a name in quotation marks if it has a comma, so that it stays one name within a sentence."""
    return f"“{name}”" if "," in name else name
