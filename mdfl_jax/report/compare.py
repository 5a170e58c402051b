"""Makes one `Run` of several studies, so that every panel of the report can compare them.

A sweep point keeps its settings and has one more, its study. Results are taken at a round that all studies have
evaluated. Differences are to a point of the first study: paired by seed where data and places agree
(`mdfl_jax.report.pairing`), else with Welch's interval.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import SCHEMA
from mdfl_jax.report import partial
from mdfl_jax.report.pairing import shared
from mdfl_jax.report.read import ROUNDS, Run, axes_of, read_workdir
from mdfl_jax.report.references import STUDY, accuracy_gap, references
from mdfl_jax.report.settings import show

MEANING = ("judged", "data.name", "data.limit_test", "model.loss")  # settings that decide what the accuracy is


def read_studies(workdirs: Sequence[Path], folder: Path | None = None, baseline: str = "", x_axis: str = "") -> Run:
    """Read one study, or several as one that compares them.

    Args:
      workdirs: the folders of the studies.
      folder: the folder for the report; None: that of the first study.
      baseline, x_axis: as in `compare`.

    Raises:
      UserError: as `read_workdir` and `compare`; if a folder is given twice; or if a baseline is given for one study.
    """
    twice = [path for path, count in Counter(path.resolve() for path in workdirs).items() if count > 1]
    if twice:
        raise UserError(f"{twice[0]}: this study is given twice")
    if len(workdirs) > 1:
        runs = [read_workdir(path) for path in workdirs]
        return compare(runs, folder or runs[0].workdir, baseline, x_axis)
    if baseline:
        raise UserError(f"--baseline={baseline}: only a comparison of several studies takes it; name several folders")
    run = read_workdir(workdirs[0], x_axis)
    return dataclasses.replace(run, workdir=folder) if folder else run


def names_of(runs: Sequence[Run]) -> list[str]:
    """Return a name for each study: its own one, with the folder where several studies have the same name."""
    names = [str(run.manifest.get("name") or run.workdir.name) for run in runs]
    for part in (1, 2):
        count = Counter(names)
        folders = ["/".join(run.workdir.resolve().parts[-part:]) for run in runs]
        names = [folder if count[name] > 1 else name for name, folder in zip(names, folders)]
    count = Counter(names)
    return [f"{name} ({i + 1})" if count[name] > 1 else name for i, name in enumerate(names)]


def compare(runs: Sequence[Run], folder: Path, baseline: str = "", x_axis: str = "") -> Run:
    """Make one `Run` of several studies.

    Args:
      runs: the studies, at least two.
      folder: the folder for the report.
      baseline: the sweep point that all others are compared with: an id of the first study, or 'STUDY: ID'. Empty:
        each point is compared with the point of the first study that is the baseline of its settings.
      x_axis: as in `read_workdir`; empty: that of the first study, or the rounds where a study has not recorded it.

    Raises:
      UserError: if there is no such sweep point or x axis.
    """
    names = names_of(runs)
    at, remarks = _common_round(runs, names)
    summaries = [_summary_at(run, at) for run in runs]
    parts = [(i, p) for i, run in enumerate(runs) for p in range(len(run.points))]
    paths = dict.fromkeys(axis.path for run in runs for axis in run.axes)
    points = []
    for i, p in parts:
        point = summaries[i]["points"][p]
        settings = {STUDY: names[i], **{path: runs[i].value(p, path) for path in paths}}
        own = {"id": _joined(names[i], point["id"]), "overrides": settings, "seeds": list(runs[i].seeds(p))}
        points.append({**point, **own})
    for entry, other, part in zip(points, references(runs, points, parts, baseline), parts):
        entry["baseline"] = None if other is None else points[other]["id"]
        entry["difference_to_baseline"] = None if other is None else accuracy_gap(runs, part, parts[other], at)
    found = {entry["baseline"] for entry in points} - {None}
    metrics = {entry["key"]: entry for run in reversed(runs) for entry in run.summary.get("metrics", ())}
    summary = {"schema": SCHEMA, "baseline": found.pop() if len(found) == 1 else "", "points": points}
    summary |= {"metrics": list(metrics.values())} if metrics else {}
    if at and (remarks or any("round" in run.summary for run in runs)):  # otherwise it is the end of all
        summary["round"] = at
    meanings = {run.summary.get("accuracy_is") for run in runs}
    summary |= {"accuracy_is": meanings.pop()} if len(meanings) == 1 and None not in meanings else {}
    x, of_x = _x_axis(runs, names, summary, x_axis)
    said = tuple(f"{name}: {run.remarks[0]}" for name, run in zip(names, runs) if run.remarks)
    told = (*said, *_unlike(runs, names), *remarks, *of_x)
    return _joint(runs, names, folder, summary, parts, x, told)


def _joined(study: str, name: str) -> str:
    return f"{study}: {name}"


def _joint(
    runs: Sequence[Run],
    names: Sequence[str],
    folder: Path,
    summary: dict[str, Any],
    parts: Sequence[tuple[int, int]],
    x_axis: str,
    remarks: tuple[str, ...],
) -> Run:
    """Put the content of several studies together, with the sweep points in the order of ``parts``."""
    ids = [{point["id"]: _joined(name, point["id"]) for point in run.points} for name, run in zip(names, runs)]
    manifest = {
        "schema": SCHEMA,
        "name": ", ".join(names),
        "title": f"{', '.join(names[:-1])} and {names[-1]} compared",
        "status": "finished" if all(run.manifest.get("status") != "running" for run in runs) else "running",
        "config": shared([run.config for run in runs]),
        "points": [
            {**of, "id": ids[i][of["id"]]}
            for i, run in enumerate(runs)
            for of in run.manifest.get("points", ())
            if of["id"] in ids[i]
        ],
        "seeds": sorted({seed for run in runs for p in range(len(run.points)) for seed in run.seeds(p)}),
    }
    curves = {ids[i][name]: curve for i, run in enumerate(runs) for name, curve in run.curves.items()}
    lines = [
        {**line, "point": ids[i][line["point"]]}
        for i, run in enumerate(runs)
        for line in run.lines
        if line["point"] in ids[i]
    ]
    found = Run(folder, manifest, summary, curves, {}, x_axis, lines, remarks=remarks)
    return dataclasses.replace(found, studies=tuple(runs), parts=tuple(parts))


def _end(run: Run) -> int:
    """Return the round of a study's results."""
    found = run.summary.get("round")
    return int(max(curve.rounds[-1] for curve in run.curves.values()) if found is None else found)


def _common_round(runs: Sequence[Run], names: Sequence[str]) -> tuple[int | None, list[str]]:
    """Return the round of the results, or None if the studies have evaluated none in common, and what to say of it."""
    ends = [_end(run) for run in runs]
    if len(set(ends)) == 1:
        return ends[0], []
    told = ", ".join(f"{name} at round {end}" for name, end in zip(names, ends))
    rounds = [
        set(map(int, curve.rounds)) for run in runs for curve in run.curves.values() if curve.rounds[-1] >= min(ends)
    ]
    common = {r for r in set.intersection(*rounds) if 0 < r <= min(ends)}
    if not common:
        return None, [
            f"The studies end at different rounds ({told}) and have evaluated no round in common: each result"
            " is that of the study's own end."
        ]
    at = max(common)
    return at, [
        f"The studies end at different rounds ({told}). All results below are those at round {at}, the last one"
        " that all have evaluated."
    ]


def _summary_at(run: Run, at: int | None) -> dict[str, Any]:
    """Return the summary of a study at an evaluated round."""
    if at is None or _end(run) == at:
        return run.summary
    lines = partial.runs_of(run.lines, run.workdir / "metrics.jsonl")
    said: dict[str, Any] = {key: run.summary[key] for key in ("metrics", "accuracy_is") if key in run.summary}
    found = partial.summarize({**run.manifest, **said}, run.points, lines, at)
    for p, (entry, point) in enumerate(zip(found["points"], run.points)):
        entry["distance_moved_per_mobile_client"] = _moved(run, p, at)
        until = {seed: r for seed, r in (point.get("diverged") or {}).items() if r <= at}
        known = point.get("divergence") or {}
        entry |= {"diverged": until, "divergence": {seed: known[seed] for seed in until if seed in known}}
    return found


def _moved(run: Run, point: int, at: int) -> float | None:
    """Return the mean distance that the mobile clients of a sweep point have moved until a round; None if unknown."""
    moved, mobile = run.history(point, "distance_moved"), run.history(point, "is_mobile")
    evaluated = np.flatnonzero(run.curves[run.points[point]["id"]].rounds == at)
    if moved is None or mobile is None or not len(evaluated):
        return None
    return float(moved[:, evaluated[0]][mobile].mean()) if mobile.any() else 0.0


def _x_axis(
    runs: Sequence[Run], names: Sequence[str], summary: Mapping[str, Any], wanted: str
) -> tuple[str, list[str]]:
    """Return the x axis of the accuracy curves, and what to say of it.

    Raises:
      UserError: if there is no such axis, or if a study has not recorded it.
    """
    x = wanted or runs[0].x_axis
    known = [ROUNDS, *axes_of(summary)]
    if x not in known:
        raise UserError(f"the x axis is {x!r}; these studies have {', '.join(known)}")
    lack = [
        name for name, run in zip(names, runs) if x != ROUNDS and any(x not in c.measured for c in run.curves.values())
    ]
    if not lack:
        return x, []
    if wanted:
        raise UserError(
            f"the x axis is {x!r}, which {', '.join(lack)} has not recorded; choose another, such as {ROUNDS}"
        )
    return ROUNDS, [f"{', '.join(lack)} has not recorded {x}, so the x axis is the rounds."]


def _unlike(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """Return a sentence if the accuracies of the studies are not the same quantity."""
    differ = []
    for path in MEANING:
        values = [show(run.value(0, path)) for run in runs]
        if len(set(values)) > 1:
            differ.append(f"{path} is {', '.join(f'{value} in {name}' for name, value in zip(names, values))}")
    said = "The studies do not measure the same accuracy, so compare them with care"
    return [f"{said}: {'; '.join(differ)}."] if differ else []
