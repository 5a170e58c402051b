"""Makes the content of summary.json, of a finished study and of one that still runs, mostly of lines of metrics.jsonl.

Statistics are over seeds, and differences are paired by seed: points with the same seed share data, places and model,
except for what the sweep itself changes, such as the partition. A run that has diverged has no result: its seed is left
out of all means and differences of its point. `select` chooses step sizes fairly: of the points that differ in the
chosen fields only, it takes the best one by what is judged.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core.metric import GROUPS, SCHEMA, TARGET, Shown
from mdfl_jax.core.outcomes import (
    VALIDATION_LOSS,
    Line,
    at_first,
    baselines,
    interval_of_known,
    judged_key,
    parsed_number,
    selected_fields,
    with_seeds,
)
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.built_in.every_study import diverged
from mdfl_jax.results.lines import INTERVAL, by_group
from mdfl_jax.results.statistics import power_of

Statistic = Callable[[np.ndarray], dict[str, Any]]  # of values over the seeds, [S]


class PointRuns(NamedTuple):
    """What is known of a sweep point.

    Attributes:
      lines: The lines of each run by seed, in the order of the evaluations. All runs have the same ones.
      arrays: The arrays of the same runs and evaluations by their key in history.npz, [S, ...]; those that are absent,
        as in a study that still runs, leave out what lines do not tell.
      more: Further entries of the point.
    """

    lines: Mapping[int, Sequence[Line]]
    arrays: Mapping[str, np.ndarray] = {}
    more: Mapping[str, Any] = {}

    def column(self, key: str) -> np.ndarray:
        """Return an entry of the lines, [S, E]; NaN where it is not known. Without a run it is [0, 1]."""
        return np.array(
            [[parsed_number(line.get(key)) for line in of] for of in self.lines.values()] or np.empty((0, 1))
        )

    def of_clients(self, key: str) -> np.ndarray:
        """Return a metric of the clients, [S, E, N], or its means over the clients, [S, E]."""
        return self.arrays[key] if key in self.arrays else self.column(key)


def to_target(accuracy: np.ndarray, values: Mapping[str, np.ndarray], target: float | None) -> dict[str, Any]:
    """Return the entries of summary.json about reaching the target: of the mean over the seeds, and of each seed.

    Args:
      accuracy: [S, E] the accuracy that is judged; NaN at all evaluations of a seed that is left out of the mean.
      values: [S, E], or of the clients [S, E, N], by name.
      target: The accuracy to reach; None: there is none.

    Returns:
      'NAME_to_target' for each of the values, and the same with '_per_seed': the value at the first evaluation that
      reaches the target, the mean over the clients; None if it is not reached.
    """
    known = ~np.isnan(accuracy).all(axis=1)
    counted = known | ~known.any()  # without any, the mean is NaN and reaches nothing
    found: dict[str, Any] = {}
    for name, of in values.items():
        of_runs, means = of.mean(axis=tuple(range(2, of.ndim))), of[counted]
        if target is None or not len(means):
            found |= {f"{name}_to_target": None, f"{name}_to_target_per_seed": [None] * len(of)}
            continue
        mean = means.mean(axis=(0, *range(2, of.ndim)))
        found[f"{name}_to_target"] = at_first(mean, accuracy[counted].mean(axis=0), target)
        found[f"{name}_to_target_per_seed"] = [at_first(row, own, target) for row, own in zip(of_runs, accuracy)]
    return found


def summarize_groups(point: PointRuns, over: Statistic) -> dict[str, Any]:
    """Return what summary.json says of the mobile clients of a point and of the others.

    Returns:
      group_accuracy: The accuracy of both groups at the end.
      group_gap: The accuracy of the mobile clients minus that of the others: ``final``, at the end, and ``mean``, over
        the evaluations without the first one, at which all clients have the same model.
      group_neighbours: The contacts of a client over the whole run, for both groups: clients in range.
      group_heard: The same of the clients that it heard.
    """
    accuracy = {name: point.column(f"accuracy_{name}") for name in GROUPS}
    gap = accuracy["mobile"] - accuracy["other"]
    later = gap[:, min(1, gap.shape[1] - 1) :]
    found = {
        "group_accuracy": {name: over(values[:, -1]) for name, values in accuracy.items()},
        "group_gap": {"mean": over(later.mean(axis=1)), "final": over(gap[:, -1])},
    }
    for key in ("neighbours", "heard"):
        if f"num_{key}" in point.arrays:
            rounds = np.diff(point.arrays["rounds_done"], axis=1)[:, :, None]  # 0 after a run has stopped
            a_round = np.nan_to_num(point.arrays[f"num_{key}"][:, 1:].astype(np.float64))
            of_groups = by_group((a_round * rounds).sum(axis=1), point.arrays["is_mobile"])
            found[f"group_{key}"] = {name: over(values) for name, values in of_groups.items()}
    return found


def summarize_sampling(runs: Sequence[Sequence[Line]]) -> dict[str, Any]:
    """Return the entry 'sampling' of a point in summary.json; none if all clients were evaluated on all test samples.

    Args:
      runs: The lines of the runs, one for each seed.

    Returns:
      ``ci95``: the largest half-width, over the evaluations, of the 95 % interval that sampling adds to the mean
      accuracy over clients and seeds; ``round``: the round of that evaluation; ``mean_ci95``: the mean of these
      half-widths over the evaluations of a sample. The seeds have samples of their own, so the half-width is
      sqrt(sum_s h_s^2) / S for those of the seeds, h_s. If no evaluation is of a sample, the interval is 0; if all of
      them are of models that are not finite, it is NaN.
    """
    if not runs or INTERVAL not in runs[0][0]:
        return {}
    half = np.array([[parsed_number(line.get(INTERVAL)) for line in of] for of in runs])  # [S, E]
    of_mean = np.sqrt(np.square(half).sum(axis=0)) / len(runs)
    inner = of_mean[1:-1]
    if not np.isfinite(inner).any():
        nothing = float("nan") if len(inner) else 0.0
        return {"sampling": {"ci95": nothing, "round": None, "mean_ci95": nothing}}
    worst = int(np.nanargmax(inner))
    found = {"ci95": float(inner[worst]), "round": runs[0][1 + worst]["round"], "mean_ci95": float(np.nanmean(inner))}
    return {"sampling": found}


def select(entries: Sequence[dict[str, Any]], path: str, by: str = VALIDATION_LOSS) -> list[dict[str, Any]]:
    """Return the best point of each group of points that differ in the chosen fields only.

    Args:
      entries: The entries of the points in summary.json, with ``id``, ``overrides``, ``diverged`` and
        ``validation_loss``, and the key ``by``.
      path: The field, which is swept; or several, separated by commas.
      by: What the best point has the least of: ``validation_loss``, ``rounds_to_target`` or ``bits_to_target``. A point
        that does not reach the target is behind all that do. Equal points are ordered by their validation loss.

    Returns:
      One entry for each group: ``of``, the overrides that its points share; ``id`` and ``value`` of the best point, and
      its mean ``validation_loss`` over the seeds; ``at_edge``, whether this value is the smallest or the largest tried,
      so that a wider grid might hold a better one. If all points of a group diverged, ``id`` is None. With several
      fields, ``value`` is that of the first one, ``values`` has all of them, and ``at_edge`` is true if one of them is
      at an edge. If ``by`` is not the validation loss, the entry also has ``by`` and, under this name, the value of the
      best point, which is None if no point of the group reached the target.
    """
    paths = selected_fields(path)
    groups: dict[tuple[tuple[str, Any], ...], list[dict[str, Any]]] = {}
    for entry in entries:
        shared = tuple((k, v) for k, v in entry["overrides"].items() if k not in paths)
        groups.setdefault(shared, []).append(entry)
    return [_chosen(dict(shared), members, paths, by) for shared, members in groups.items()]


def _order(by: str) -> Callable[[dict[str, Any]], tuple[float, float]]:
    """Return the key by which the points of a group are ordered, the best one first."""

    def key(entry: dict[str, Any]) -> tuple[float, float]:
        loss = entry["validation_loss"]["mean"]
        judged = loss if by == VALIDATION_LOSS else entry[by]
        return (math.inf if judged is None else judged, loss)

    return key


def _chosen(shared: dict[str, Any], members: list[dict[str, Any]], paths: Sequence[str], by: str) -> dict[str, Any]:
    usable = [m for m in members if not m["diverged"] and math.isfinite(parsed_number(m["validation_loss"]["mean"]))]
    best = min(usable, key=_order(by), default=None)
    values = {path: best["overrides"][path] if best else None for path in paths}
    tried = {path: {m["overrides"][path] for m in members} for path in paths}
    found = {
        "of": shared,
        "id": best["id"] if best else None,
        "value": values[paths[0]],
        "validation_loss": best["validation_loss"]["mean"] if best else None,
        "at_edge": any(len(tried[p]) > 1 and values[p] in (min(tried[p]), max(tried[p])) for p in paths),
    }
    found |= {"values": values} if len(paths) > 1 else {}
    return found | ({} if by == VALIDATION_LOSS else {"by": by, by: best[by] if best else None})


def _mean(values: np.ndarray) -> float | None:
    """Return the mean of all values; None if there are none, or if one is not known."""
    found = float(np.mean(values, dtype=np.float64)) if len(values) else math.nan
    return None if math.isnan(found) else found


def _moved(arrays: Mapping[str, np.ndarray], valid: np.ndarray) -> float | None:
    """Return the mean distance that the mobile clients have moved in the runs that count; None if it is not known."""
    if "distance_moved" not in arrays or not valid.any():
        return None
    moved = arrays["distance_moved"][valid, -1][arrays["is_mobile"][valid]]
    return float(moved.mean()) if moved.size else 0.0


def summarize_point(point: PointRuns, shown: Sequence[Shown], target: float | None, judged: str) -> dict[str, Any]:
    """Return the entry of one point in summary.json, without its name and its difference to the baseline.

    Args:
      point: The runs of the point.
      shown: The metrics.
      target: The accuracy whose first round is reported; None: there is none.
      judged: The key of the accuracy that is reported, in a line.
    """
    runs, lost, arrays = list(point.lines.values()), diverged(point.lines), point.arrays
    valid = np.array([str(seed) not in lost["diverged"] for seed in point.lines], bool)  # [S]
    over: Statistic = lambda values: with_seeds(np.where(valid, values, np.nan))  # noqa: E731
    at_end = lambda key: point.column(key)[:, -1]  # noqa: E731
    in_lines = {key for of in runs[:1] for key in of[-1]}
    accuracy = np.where(valid[:, None], point.column(judged), np.nan)  # [S, E]
    worst = point.column("accuracy_min")
    told = {"rounds": point.column("round"), "bits": point.of_clients("bits_sent")}
    told |= {of.key: point.column(of.key) for of in shown if TARGET in of.where and of.key in in_lines}
    reached = to_target(accuracy, told, target)
    whole = lambda value: None if value is None else int(value)  # noqa: E731
    reached["rounds_to_target"] = whole(reached["rounds_to_target"])
    reached["rounds_to_target_per_seed"] = [whole(value) for value in reached["rounds_to_target_per_seed"]]
    return {
        "final_accuracy": over(accuracy[:, -1]),
        "best_accuracy": over(accuracy.max(axis=1)),
        "worst_client_accuracy": None if np.isnan(worst[:, 0]).all() else over(worst[:, -1]),
        **{
            metric.key: over(at_end(metric.key)) if not arrays or metric.key in arrays else None
            for metric in shown
            if metric.summary and metric.key in in_lines
        },
        **reached,
        "bits_sent_per_client": _mean(point.of_clients("bits_sent")[valid, -1]),
        "double_bits_per_client": _mean(at_end("double_bits")[valid]),
        "messages_per_client": _mean(point.of_clients("messages")[valid, -1]),
        "distance_moved_per_mobile_client": _moved(arrays, valid),
        **summarize_groups(point, over),
        **summarize_sampling([of for of, ok in zip(runs, valid) if ok] or runs),
        **lost,
        **point.more,
    }


def _paired(entry: Mapping[str, Any], own: Sequence[int], base: Mapping[str, Any], there: Sequence[int]) -> np.ndarray:
    """Return the differences of two points, one for each seed that both have."""
    ours, theirs = (dict(zip(seeds, of["final_accuracy"]["per_seed"])) for of, seeds in ((entry, own), (base, there)))
    common = [seed for seed in own if seed in theirs]
    return np.subtract([ours[seed] for seed in common], [theirs[seed] for seed in common])


def _difference(differences: np.ndarray) -> dict[str, Any] | None:
    """Return the difference of two points from those of the seeds; None if no seed has one.

    Seeds under which one of the two diverged are left out (NaN), and 'seeds' is then the number of the others.
    """
    if np.isnan(differences).all():
        return None
    found = interval_of_known(differences)
    return {key: found[key] for key in ("mean", "ci95", "seeds") if key in found}


def _power(
    entries: Sequence[Mapping[str, Any]],
    others: Sequence[int | None],
    seeds: Sequence[Sequence[int]],
    selected: Sequence[Mapping[str, Any]] | None,
) -> dict[str, Any] | None:
    """Return the power of the study, from the paired differences of its points.

    A point is compared with its baseline, and in a study without baselines with the most accurate point. Seeds under
    which one of the two diverged are left out, and so are points that diverged under all seeds or that `select` did not
    choose.
    """
    ids = {entry["id"] for entry in (entries if selected is None else selected)}
    means = {p: mean for p, of in enumerate(entries) if (mean := of["final_accuracy"]["mean"]) is not None}
    told = [p for p in means if entries[p]["id"] in ids]
    if set(others) == {None} and told:
        others = [max(told, key=lambda p: means[p])] * len(entries)
    pairs = [(p, q) for p in told if (q := others[p]) is not None and q != p and q in told]
    return power_of({entries[p]["id"]: _paired(entries[p], seeds[p], entries[q], seeds[q]) for p, q in pairs})


def summarize(
    manifest: Mapping[str, Any], points: Sequence[PointRuns], own: Sequence[Shown], accuracy_is: str
) -> dict[str, Any]:
    """Return the content of summary.json as a tree.

    Args:
      manifest: The content of config.json.
      points: What is known of each of its sweep points.
      own: The metrics that are not built in.
      accuracy_is: What the accuracy is, in words; '' for the usual one.
    """
    config, others = manifest["config"], baselines(manifest)
    target, judged = config.get("target"), judged_key(config)
    target, entries = None if target is None else float(target), []
    shown = [*(metric.described for metric in BUILT_IN), *own]
    for point, runs in zip(manifest["points"], points):
        entry = {key: point[key] for key in ("id", "overrides", "seeds") if key in point}
        entries.append(entry | summarize_point(runs, shown, target, judged))
    seeds = [list(runs.lines) for runs in points]
    for p, (entry, other) in enumerate(zip(entries, others)):
        entry["baseline"] = None if other is None else entries[other]["id"]
        entry["difference_to_baseline"] = None
        if other is not None:
            entry["difference_to_baseline"] = _difference(_paired(entry, seeds[p], entries[other], seeds[other]))
    ids = {entries[other]["id"] for other in others if other is not None}
    name = ids.pop() if len(ids) == 1 else config.get("baseline") or ""
    found: dict[str, Any] = {"schema": SCHEMA, "baseline": name, "target": target, "points": entries}
    if by := config.get("select"):
        found["selected"] = select(entries, by, config.get("select_by") or VALIDATION_LOSS)
    if told := _power(entries, others, seeds, found.get("selected")):
        found["power"] = told
    if own:
        found["metrics"] = [metric._asdict() for metric in own]
    return found | ({"accuracy_is": accuracy_is} if accuracy_is else {})
