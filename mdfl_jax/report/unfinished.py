"""What the report says of a study that is not whole: one that still runs, and a shard or a part of one.

All statistics of a study that still runs are taken at one round, so that the sweep points can be compared: the latest
round that at least half of the sweep points that have begun have reached under some seed. The statistics are over the
seeds that have reached this round. A sweep point that has not reached it has no result yet, but it has a curve.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import GROUPS, SCHEMA, TARGET, Shown
from mdfl_jax.core.outcomes import Line, Runs, at_first, baselines, by_run, number, seeds_of
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.built_in.every_study import diverged
from mdfl_jax.results.records import lines_of_point
from mdfl_jax.results.statistics import difference, with_seeds
from mdfl_jax.results.studies import read_records
from mdfl_jax.storage.study_files import METRICS, read_lines

MOST = 6  # so many sweep points are named in a sentence


class NotYetError(UserError):
    """A study has only begun, and nothing can be shown of it yet."""


class Unfinished(NamedTuple):
    """What an unfinished study has."""

    summary: dict[str, Any]  # in the form of summary.json, with the sweep points that have begun
    lines: list[Line]  # the lines of metrics.jsonl that the curves show
    remarks: tuple[str, ...]  # how far the study is, in sentences


def judged_key(config: Mapping[str, Any]) -> str:
    """Return the key of the accuracy by which sweep points are compared, in a line of metrics.jsonl."""
    return "mean_model_accuracy" if config.get("judged") == "global" else "accuracy"


def read_unfinished(workdir: Path, manifest: Mapping[str, Any]) -> Unfinished:
    """Read what an unfinished study has: the records of finished runs, and the lines of those that are under way.

    Args:
      workdir: the folder of the study.
      manifest: the content of its config.json.

    Raises:
      NotYetError: if it has no evaluation yet.
      UserError: if a file cannot be read.
    """
    path = workdir / METRICS
    found = by_run(read_lines(path) if path.is_file() else [])
    for point, records in zip(manifest["points"], read_records(workdir, manifest)):
        for record in records:
            lines: dict[int, Line] = {line["round"]: line for line in lines_of_point(point["id"], record)}
            found.setdefault(point["id"], {})[record.seed] = lines
    begun = [point for point in manifest["points"] if found.get(point["id"])]
    if not begun:
        raise NotYetError(f"{workdir}: the study has only begun: it has no evaluation yet")
    runs = {point["id"]: found[point["id"]] for point in begun}
    at = common_round(runs)
    kept = {name: _kept(of, at) for name, of in runs.items()}
    summary = summarize_at(manifest, begun, kept, at)
    shown = [line for of in kept.values() for by_round in of.values() for line in by_round.values()]
    return Unfinished(summary, shown, _describe_progress(manifest, runs, at))


def common_round(runs: Mapping[str, Runs]) -> int:
    """Return the latest round that at least half of the sweep points have reached under some seed.

    >>> common_round({"a": {0: {400: {}}}, "b": {0: {400: {}}, 1: {20: {}}}, "c": {0: {20: {}}}})
    400
    """
    furthest = sorted((max(map(max, of.values())) for of in runs.values()), reverse=True)
    return furthest[(len(furthest) + 1) // 2 - 1]


def _kept(runs: Runs, at: int) -> Runs:
    """Return the lines of the runs that have reached a round, or else of the furthest runs, until one of them ends."""
    last = {seed: max(by_round) for seed, by_round in runs.items()}
    least = min(at, max(last.values()))
    seeds = sorted(seed for seed, end in last.items() if end >= least)
    until = min(last[seed] for seed in seeds)
    return {seed: {r: runs[seed][r] for r in sorted(runs[seed]) if r <= until} for seed in seeds}


def summarize_at(
    manifest: Mapping[str, Any], points: Sequence[Mapping[str, Any]], runs: Mapping[str, Runs], at: int
) -> dict[str, Any]:
    """Return results in the form of summary.json, at one round, from lines of metrics.jsonl.

    Args:
      manifest: the content of config.json, with its own `metrics` and `accuracy_is`, as in summary.json.
      points: its sweep points, those with runs.
      runs: the lines by sweep point, seed and round.
      at: the round. A sweep point without a seed that has reached it has results without values.
    """
    config = manifest["config"]
    others = [None if q is None else points[q]["id"] for q in baselines({"config": config, "points": points})]
    found = set(others) - {None}
    own, meaning = manifest.get("metrics") or [], manifest.get("accuracy_is")
    shown = [metric.described for metric in BUILT_IN if metric.summary] + [Shown(**entry) for entry in own]
    reached = {
        point["id"]: {
            seed: [by_round[r] for r in sorted(by_round) if r <= at]
            for seed, by_round in runs[point["id"]].items()
            if at in by_round
        }
        for point in points
    }
    judged, entries = judged_key(config), []
    for point, other in zip(points, others):
        lines = reached[point["id"]]
        entry = {"id": point["id"], "overrides": point["overrides"], "seeds": list(lines)}
        entry |= _summarize_point(lines, judged, config.get("target"), shown) | {"baseline": other}
        lead = None
        if other:
            one, two = ({seed: number(of[-1][judged]) for seed, of in reached[p].items()} for p in (point["id"], other))
            lead = difference(one, two) if one and two else None
        entries.append(entry | {"difference_to_baseline": lead})
    said = ({"metrics": own} if own else {}) | ({"accuracy_is": meaning} if meaning else {})
    name = found.pop() if len(found) == 1 else config.get("baseline") or ""
    head = {"schema": SCHEMA, "round": at, "baseline": name, "target": config.get("target")}
    return head | {"points": entries} | said


def _summarize_point(
    by_seed: Mapping[int, Sequence[Line]], judged: str, target: float | None, shown: Sequence[Shown]
) -> dict[str, Any]:
    """Return the results of a sweep point, from the lines of each seed until the round of the results."""
    runs, lost = list(by_seed.values()), diverged(by_seed)
    valid = np.array([str(seed) not in lost["diverged"] for seed in by_seed], bool)

    def at_end(key: str) -> dict[str, Any] | None:
        values = np.where(valid, [number(of[-1].get(key)) for of in runs], np.nan)
        return with_seeds(values) if not np.isnan(values).all() else None

    def mean(key: str) -> float | None:
        return (at_end(key) or {}).get("mean")

    accuracy = np.array([[number(line[judged]) for line in of] for of in runs], float)
    accuracy = np.where(valid[:, None], accuracy, np.nan) if len(runs) else accuracy
    entry: dict[str, Any] = {
        "final_accuracy": with_seeds(accuracy[:, -1] if len(runs) else ()),
        "best_accuracy": with_seeds(accuracy.max(1) if len(runs) else ()),
        "worst_client_accuracy": at_end("accuracy_min"),
        **{metric.key: at_end(metric.key) for metric in shown},
    }
    keys = {"bits": "bits_sent", **{metric.key: metric.key for metric in shown if TARGET in metric.where}}
    entry["rounds_to_target"] = _at_first(runs, accuracy, target, "round")
    entry |= {f"{name}_to_target": _at_first(runs, accuracy, target, key) for name, key in keys.items()}
    for name, key in (("bits_sent", "bits_sent"), ("double_bits", "double_bits"), ("messages", "messages")):
        entry[f"{name}_per_client"] = mean(key)
    return entry | {"group_accuracy": {group: at_end(f"accuracy_{group}") or {} for group in GROUPS}} | lost


def _at_first(runs: Sequence[Sequence[Line]], accuracy: np.ndarray, target: float | None, key: str) -> Any:
    """Return a value's mean over the seeds at the first evaluation whose mean accuracy reaches the target, or None."""
    known = ~np.isnan(accuracy).all(axis=1) if len(runs) else np.zeros(0, bool)
    if not known.any() or target is None:
        return None
    values = np.array([[number(line.get(key)) for line in of] for of in runs])[known].mean(axis=0)
    found = at_first(values, accuracy[known].mean(0), target)
    return None if found is None or np.isnan(found) else int(found) if key == "round" else found


def _describe_progress(manifest: Mapping[str, Any], runs: Mapping[str, Runs], at: int) -> tuple[str, ...]:
    """Return how far the study is: its runs, the round of its results, and the points that have not reached it."""
    total = manifest["config"].get("rounds")
    planned = sum(len(seeds_of(manifest, p)) for p in range(len(manifest["points"])))
    ends = {name: [max(by_round) for by_round in of.values()] for name, of in runs.items()}
    done = sum(end == total for of in ends.values() for end in of)
    begun = sum(map(len, ends.values()))
    said = [
        f"This study is unfinished: of its {planned} runs {done} have ended and {begun - done} are under way.",
        f"The results below are those at round {at} of {total}, over the seeds that have reached it.",
    ]
    late = [str(p["id"]) for p in manifest["points"] if max(ends.get(p["id"], [-1])) < at]
    if late:
        more = f" and {len(late) - MOST} more" if len(late) > MOST else ""
        said.append(f"These points have not reached it yet: {'; '.join(late[:MOST])}{more}.")
    some = {name: sum(end >= at for end in of) for name, of in ends.items()}
    most = max(some.values())
    fewer = [f"{name} ({count})" for name, count in some.items() if 0 < count < most]
    if fewer:
        more = f" and {len(fewer) - MOST} more" if len(fewer) > MOST else ""
        said.append(f"In these points fewer than {most} seeds have reached it: {'; '.join(fewer[:MOST])}{more}.")
    return tuple(said)


MOST_MISSING = 6  # so many sweep points are named in a sentence


def describe_missing(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for the top of the page about the runs that are missing; none for a whole study.

    Args:
      manifest: the content of config.json. Its entry ``whole`` has the sweep points and seeds of the whole study.
    """
    whole = manifest.get("whole")
    if not whole:
        return ()
    here = {point["id"]: seeds_of(manifest, p) for p, point in enumerate(manifest["points"])}
    seeds = {str(of["id"]): [s for s in whole["seeds"] if s not in here.get(of["id"], ())] for of in whole["points"]}
    missing = {name: found for name, found in seeds.items() if found}
    count, total = sum(map(len, missing.values())), len(whole["points"]) * len(whole["seeds"])
    told = [
        f"{name} (seed{'s' if len(found) > 1 else ''} {', '.join(map(str, found))})" if name in here else name
        for name, found in missing.items()
    ]
    more = f" and {len(told) - MOST_MISSING} more" if len(told) > MOST_MISSING else ""
    what = f"shard {manifest['shard']} of a study" if manifest.get("shard") else "a part of a study"
    said = f"This is {what}. Of its {total} runs, {count} are missing: {'; '.join(told[:MOST_MISSING])}{more}."
    return (said,) if missing else ()
