"""Makes the content of summary.json and history.npz from the records of a study.

Statistics are over seeds, and differences are paired by seed: points with the same seed share data, places and model,
except for what the sweep itself changes, such as the partition. A run that has diverged has no result: its seed is left
out of all means and differences of its point. `select` chooses step sizes fairly: of the points that differ in the
chosen fields only, it takes the best one by what is judged.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdfl_jax.core.metric import SCHEMA, TARGET, Shown
from mdfl_jax.core.outcomes import (
    VALIDATION_LOSS,
    at_first,
    baselines,
    interval_of_known,
    number,
    seeds_of,
    selected_fields,
    with_seeds,
)
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.built_in.every_study import diverged
from mdfl_jax.results import lines
from mdfl_jax.results.lines import accuracy_of, group_summary, unmeasured
from mdfl_jax.results.records import PointArrays, RunRecord, in_order
from mdfl_jax.results.statistics import power_of


def _first_round(rounds: np.ndarray, accuracy: np.ndarray, target: float) -> int | None:
    found = at_first(rounds, accuracy, target)
    return None if found is None else int(found)


def to_target(
    rounds: np.ndarray, accuracy: np.ndarray, bits: np.ndarray, shown: Mapping[str, np.ndarray], target: float
) -> dict[str, Any]:
    """Return the entries of summary.json about reaching the target: of the mean over the seeds, and of each seed.

    Args:
      rounds: [E] the evaluated rounds.
      accuracy: [S, E] the accuracy that is judged; NaN at all evaluations of a seed that is left out of the mean.
      bits: [S, E, N] the bits that each client has sent.
      shown: [S, E] by key, each metric that is shown at the target (`mdfl_jax.metrics.TARGET`), as in metrics.jsonl.
      target: the accuracy to reach.

    Returns:
      'rounds_to_target', 'bits_to_target' and 'KEY_to_target' for each metric in ``shown``, and the same with
      '_per_seed'. A value that is not reached is None. Values of clients are means over the clients, as in
      metrics.jsonl.
    """
    known = ~np.isnan(accuracy).all(axis=1)
    counted = known | ~known.any()  # without any, the mean is NaN and reaches nothing
    mean = accuracy[counted].mean(axis=0)
    found: dict[str, Any] = {
        "rounds_to_target": _first_round(rounds, mean, target),
        "rounds_to_target_per_seed": [_first_round(rounds, row, target) for row in accuracy],
        "bits_to_target": at_first(bits[counted].mean(axis=(0, 2)), mean, target),
        "bits_to_target_per_seed": [at_first(b.mean(axis=1), row, target) for b, row in zip(bits, accuracy)],
    }
    for key, numbers in shown.items():
        found[f"{key}_to_target"] = at_first(numbers[counted].mean(axis=0), mean, target)
        found[f"{key}_to_target_per_seed"] = [at_first(row, of_seed, target) for row, of_seed in zip(numbers, accuracy)]
    return found


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
    usable = [m for m in members if not m["diverged"] and math.isfinite(m["validation_loss"]["mean"])]
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


def _at_end(
    records: Sequence[RunRecord],
    arrays: Mapping[str, np.ndarray],
    shown: Sequence[Shown],
    over: Callable[[np.ndarray], dict[str, Any]],
) -> dict[str, Any]:
    """Return what summary.json says of the metrics themselves: their values at the end, over the seeds."""
    entries: dict[str, Any] = {}
    for metric in shown:
        if metric.summary and metric.key in records[0].lines[-1]:
            last = np.array([number(record.lines[-1][metric.key]) for record in records])
            entries[metric.key] = over(last) if metric.key in arrays else None
    return entries


def summarize_point(
    records: Sequence[RunRecord], arrays: PointArrays, own: Sequence[Shown], target: float, judged: str = "clients"
) -> dict[str, Any]:
    """Return the entry of one point in summary.json, without its name and its difference to the baseline.

    Args:
      records: The records of the point, one for each seed.
      arrays: The arrays of these records over the seeds.
      own: The metrics that are not built in.
      target: The accuracy whose first round is reported.
      judged: Whose accuracy is reported: "clients", or "global" for the global model.
    """
    shown = [*(metric.described for metric in BUILT_IN), *own]
    lost = diverged({record.seed: record.lines for record in records})
    valid = np.array([str(record.seed) not in lost["diverged"] for record in records])  # [S]
    over = lambda values: with_seeds(np.where(valid, values, np.nan))  # noqa: E731
    mean = lambda values: float(np.mean(values[valid], dtype=np.float64)) if valid.any() else None  # noqa: E731
    accuracy = np.where(valid[:, None], accuracy_of(arrays, judged), np.nan)  # [S, E]
    worst, mobile = arrays["accuracy"].min(axis=2), arrays["is_mobile"]
    moved = arrays["distance_moved"][valid, -1][mobile[valid]]
    in_double = [record.lines[-1].get("double_bits") for record in records]
    known = {
        metric.key: np.array([[number(line[metric.key]) for line in record.lines] for record in records])
        for metric in shown
        if TARGET in metric.where and metric.key in records[0].lines[-1]
    }
    return {
        "final_accuracy": over(accuracy[:, -1]),
        "best_accuracy": over(accuracy.max(axis=1)),
        "worst_client_accuracy": None if unmeasured(worst) else over(worst[:, -1]),
        **_at_end(records, arrays, shown, over),
        **to_target(records[0].rounds, accuracy, arrays["bits_sent"], known, target),
        "bits_sent_per_client": mean(arrays["bits_sent"][:, -1]),
        "double_bits_per_client": None if None in in_double else mean(np.array([number(v) for v in in_double])),
        "messages_per_client": mean(arrays["messages"][:, -1]),
        "distance_moved_per_mobile_client": (float(moved.mean()) if moved.size else 0.0) if valid.any() else None,
        **group_summary(arrays, mobile, over),
        **lines.summarize_sampling([record for record, ok in zip(records, valid) if ok] or records),
        **lost,
        "compile_seconds": sum(record.compile_seconds for record in records),
        "run_seconds": sum(record.run_seconds for record in records),
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
    told = [p for p, entry in enumerate(entries) if entry["id"] in ids]
    told = [p for p in told if np.isfinite(entries[p]["final_accuracy"]["mean"])]
    if set(others) == {None} and told:
        best = max(told, key=lambda p: entries[p]["final_accuracy"]["mean"])
        others = [best] * len(entries)
    pairs = [(p, q) for p in told if (q := others[p]) is not None and q != p and q in told]
    return power_of({entries[p]["id"]: _paired(entries[p], seeds[p], entries[q], seeds[q]) for p, q in pairs})


def summarize(
    manifest: Mapping[str, Any], records: Sequence[Sequence[RunRecord]], arrays: Sequence[PointArrays]
) -> dict[str, Any]:
    """Return the content of summary.json as a tree.

    Args:
      manifest: The content of config.json.
      records: The records of each sweep point, in the order of the seeds.
      arrays: The arrays of each sweep point.
    """
    config = manifest["config"]
    target, judged = float(config["target"]), config.get("judged") or "clients"
    entries, others = [], baselines(manifest)
    own = in_order(records)
    meanings = dict.fromkeys(record.header.get("accuracy_is") for of_point in records for record in of_point)
    for point, of_point, of_arrays in zip(manifest["points"], records, arrays):
        entry = {"id": point["id"], "overrides": point["overrides"]}
        entry |= {"seeds": point["seeds"]} if "seeds" in point else {}
        entries.append(entry | summarize_point(of_point, of_arrays, own, target, judged))
    seeds = [seeds_of(manifest, p) for p in range(len(entries))]
    for p, (entry, other) in enumerate(zip(entries, others)):
        entry["baseline"] = None if other is None else entries[other]["id"]
        entry["difference_to_baseline"] = None
        if other is not None:
            entry["difference_to_baseline"] = _difference(_paired(entry, seeds[p], entries[other], seeds[other]))
    ids = {entries[other]["id"] for other in others if other is not None}
    name = ids.pop() if len(ids) == 1 else config.get("baseline") or ""
    found: dict[str, Any] = {"schema": SCHEMA, "baseline": name}
    found |= {"target": target, "points": entries}
    if by := config.get("select"):
        found["selected"] = select(entries, by, config.get("select_by") or VALIDATION_LOSS)
    if told := _power(entries, others, seeds, found.get("selected")):
        found["power"] = told
    if own:
        found["metrics"] = [metric._asdict() for metric in own]
    if meaning := "; ".join(filter(None, meanings)):
        found["accuracy_is"] = meaning
    return found
