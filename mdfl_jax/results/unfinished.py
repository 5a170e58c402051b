"""A study that still runs: what it has, at one round, and how far it is.

All statistics are taken at one round, so that the sweep points can be compared: the latest round that at least half of
the sweep points that have begun have reached under some seed. The statistics are over the seeds that have reached this
round. A sweep point that has not reached it has no result yet, but it has a curve.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import Shown
from mdfl_jax.core.outcomes import Line, Runs, by_run, seeds_of
from mdfl_jax.results.records import lines_of_point, read_records
from mdfl_jax.results.summary import PointRuns, summarize
from mdfl_jax.storage.study_files import METRICS_FILE, read_lines

_MOST = 6  # so many sweep points are named in a sentence


class NotYetError(UserError):
    """A study has only begun, and nothing can be shown of it yet."""


class Unfinished(NamedTuple):
    """What there is of an unfinished study.

    Attributes:
      summary: the content of summary.json at one round, of the sweep points that have begun.
      lines: the lines that the curves show.
      remarks: how far the study is, in sentences.
    """

    summary: dict[str, Any]
    lines: list[dict[str, Any]]
    remarks: tuple[str, ...]


def read_unfinished(workdir: Path, manifest: Mapping[str, Any]) -> Unfinished:
    """Read what an unfinished study has: the records of finished runs, and the lines of those that are under way.

    Args:
      workdir: the folder of the study.
      manifest: the content of its config.json.

    Raises:
      NotYetError: if it has no evaluation yet.
      UserError: if a file cannot be read.
    """
    path = workdir / METRICS_FILE
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
    summary = summarize_at({**manifest, "points": begun}, kept, at)
    shown = [dict(line) for of in kept.values() for by_round in of.values() for line in by_round.values()]
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


def summarize_at(manifest: Mapping[str, Any], runs: Mapping[str, Runs], at: int) -> dict[str, Any]:
    """Return results in the form of summary.json, at one round, from lines of metrics.jsonl.

    Args:
      manifest: the content of config.json, with its own `metrics` and `accuracy_is`, as in summary.json.
      runs: the lines by sweep point, seed and round.
      at: the round. A sweep point without a seed that has reached it has results without values.
    """
    reached = [
        {seed: [of[r] for r in sorted(of) if r <= at] for seed, of in runs[point["id"]].items() if at in of}
        for point in manifest["points"]
    ]
    points = [{**point, "seeds": list(lines)} for point, lines in zip(manifest["points"], reached)]
    config = {**manifest["config"], "select": ""}  # nothing is chosen before the end
    own = [Shown(**entry) for entry in manifest.get("metrics") or ()]
    about = {"config": config, "points": points}
    return {"round": at} | summarize(about, list(map(PointRuns, reached)), own, manifest.get("accuracy_is") or "")


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
    said += [f"These points have not reached it yet: {_named(late)}."] if late else []
    return tuple(said)


def _named(points: Sequence[str]) -> str:
    """Return the names of sweep points, of many only the first ones and the number of the others."""
    more = f" and {len(points) - _MOST} more" if len(points) > _MOST else ""
    return "; ".join(points[:_MOST]) + more
