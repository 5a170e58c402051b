"""Compares studies: makes one study of several, so that every panel of the report shows them together.

A sweep point keeps its settings and has one more, its study. Results are taken at a round that all studies have
evaluated. Differences are to a point of the first study. They are paired by seed where the two runs share data and
places; all others have Welch's interval.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.metric import SCHEMA
from mdfl_jax.core.outcomes import by_run
from mdfl_jax.core.sweep_text import show
from mdfl_jax.report.read import ROUNDS, ReportData, axes_of, declared, kept, read_workdir, summarize_at
from mdfl_jax.report.setting import describe_setting
from mdfl_jax.report.sheet import Cell, write_csv
from mdfl_jax.report.style import looks
from mdfl_jax.report.tables import percent_cell
from mdfl_jax.results.statistics import difference

WORLD = ("network.grid_size", "network.graph", "motion.width", "motion.height")  # these decide the first places
NO_MATTER = ("data.dir",)  # a folder; what is in it has a digest
RECORDED = {
    "label_counts": "under the same seed the clients hold other data",
    "position": "under the same seed the clients start elsewhere",
}


@kept
def why_unpaired(a: ReportData, p: int, b: ReportData, q: int) -> str:
    """Return why the runs of point p of study a and point q of study b cannot be paired by seed; '' if they can.

    They can be paired if they have seeds in common, if the settings and the digests of the data agree, and if under the
    common seeds every client holds the same number of samples of each label and starts at the same place. Where places
    are not recorded, the settings and files that decide them must agree.
    """
    common = [seed for seed in a.seeds(p) if seed in b.seeds(q)]
    if not common:
        return "they have no seed in common"
    data = sorted({f"data.{name}" for study in (a, b) for name in study.config.get("data") or {}} - {*NO_MATTER})
    unknown = not (a.has(p, "position") and b.has(q, "position"))
    for path in ("network.num_clients", *data, *(WORLD if unknown else ())):
        texts = [show(_used(study, at, path)) for study, at in ((a, p), (b, q))]
        if texts[0] != texts[1]:
            return f"{path} is {texts[0]} and {texts[1]}"
    digests = [_inputs(study, ("data.", *(("trace.", "network.") if unknown else ()))) for study in (a, b)]
    for name in sorted(digests[0].keys() | digests[1].keys()):
        if digests[0].get(name) != digests[1].get(name):
            return f"the input {name} is not the same"
    for key, meaning in RECORDED.items():  # last, since these arrays are read from files
        one, two = (_of_seeds(study, at, key, common) for study, at in ((a, p), (b, q)))
        if one is not None and two is not None and not np.array_equal(one, two, equal_nan=True):
            return meaning
    return ""


def pairs_of(study: ReportData) -> Callable[[str, str], bool]:
    """Return a function that tells of two sweep points, by their ids, whether their runs are paired by seed.

    Those of one study always are. Those of two studies are compared with each other when the function asks.
    """
    parts = {point["id"]: part for point, part in zip(study.points, study.parts)}

    def paired(one: str, other: str) -> bool:
        if one not in parts:
            return True
        (i, p), (j, q) = parts[one], parts[other]
        return i == j or not why_unpaired(study.studies[i], p, study.studies[j], q)

    return paired


def common_seeds(a: ReportData, p: int, b: ReportData, q: int) -> int:
    """Return the number of seeds that two sweep points have in common."""
    return len(set(a.seeds(p)) & set(b.seeds(q)))


def _used(study: ReportData, p: int, path: str) -> Any:
    """Return the value that a sweep point uses; where the configuration names none, it is the number of the member."""
    mine = study.numbers(p)
    return mine[path] if path in mine else study.value(p, path)


def _inputs(study: ReportData, prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return the digests of the inputs whose names have one of the prefixes."""
    found = study.config.get("inputs") or {}
    return {name: digest for name, digest in found.items() if name.startswith(prefixes)}


def _of_seeds(study: ReportData, p: int, key: str, seeds: list[int]) -> np.ndarray | None:
    """Return a recorded array for the given seeds, of positions only the first row; None if it was not recorded."""
    array = _recorded(study, p, key)
    return None if array is None else array[[study.seeds(p).index(seed) for seed in seeds]]


@kept
def _recorded(study: ReportData, p: int, key: str) -> np.ndarray | None:
    array = study.history(p, key)
    return array[:, 0].copy() if array is not None and key == "position" else array


def differing(configs: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return the settings that differ between configurations: (path, the printed value of each).

    The name and the title of a study are no settings of its runs.

    >>> differing({"a": {"rounds": 9, "network": {"radius": 2.0}}, "b": {"rounds": 9, "network": {"radius": 3.0}}})
    [('network.radius', ['2', '3'])]
    """
    flat = [dict(_leaves(config)) for config in configs.values()]
    paths = dict.fromkeys(path for of in flat for path in of)
    rows = [(path, [show(of.get(path)) for of in flat]) for path in paths if path not in ("name", "title")]
    return [(path, texts) for path, texts in rows if len(set(texts)) > 1]


def shared_config(configs: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the part of configurations that is the same in all of them.

    >>> shared_config([{"a": 1, "b": {"c": 2, "d": 3}}, {"a": 0, "b": {"c": 2, "d": 4}}])
    {'b': {'c': 2}}
    """
    first, *others = configs
    found: dict[str, Any] = {}
    for key, value in first.items():
        parts = [part for other in others if isinstance(part := other.get(key), Mapping)]
        if isinstance(value, Mapping) and len(parts) == len(others):
            found[key] = shared_config([value, *parts])
        elif all(key in other and other[key] == value for other in others):
            found[key] = value
    return found


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


STUDY = "study"  # the path of the setting that names a point's study


def references(
    studies: Sequence[ReportData],
    points: Sequence[Mapping[str, Any]],
    parts: Sequence[tuple[int, int]],
    baseline: str,
) -> list[int | None]:
    """Return for each sweep point the index of the one that it is compared with, or None (`compare`)."""
    first = [p for p, (i, _) in enumerate(parts) if i == 0]
    if baseline:
        known = {point["id"]: p for p, point in enumerate(points)}
        known = {studies[0].points[p]["id"]: p for p in first} | known
        if baseline not in known:
            raise UserError(unknown_name("baseline", baseline, known))
        return [known[baseline]] * len(points)
    ids = {studies[0].points[p]["id"]: p for p in first}
    usual = studies[0].summary.get("baseline")
    own = {p: ids.get(str(studies[0].points[p].get("baseline", usual))) for p in first}
    only = {ref for ref in own.values() if ref is not None} or set(first)
    found: list[int | None] = []
    for p, q in enumerate(counterparts(points, parts)):
        if p in own:
            found.append(own[p])
        elif q is None:
            found.append(next(iter(only)) if len(only) == 1 else None)
        else:
            found.append(q if own[q] is None else own[q])
    return found


def counterparts(points: Sequence[Mapping[str, Any]], parts: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return for each sweep point the index of the first study's point with the same settings, or None."""

    def settings(p: int) -> tuple[str, ...]:
        return tuple(show(value) for path, value in points[p]["overrides"].items() if path != STUDY)

    index = {settings(p): p for p, (i, _) in enumerate(parts) if i == 0}
    return [index.get(settings(p)) for p in range(len(points))]


def accuracy_gap(
    studies: Sequence[ReportData], part: tuple[int, int], other: tuple[int, int], at: int | None
) -> dict[str, Any]:
    """Return the accuracy of a sweep point minus that of another one: `difference`, and 'why' it is not paired.

    Both points are given by the indices of their study and of the point there; ``at`` is the round, None for the end.
    """
    (i, p), (j, q) = part, other
    why = "" if i == j else why_unpaired(studies[i], p, studies[j], q)
    curves = [studies[k].curve(r) for k, r in (part, other)]
    values = [curve.at(int(curve.rounds[-1]) if at is None else at) for curve in curves]
    return {**difference(values[0], values[1], paired=not why), "why": why}


MEANING = ("judged", "data.name", "data.limit_test", "model.loss")  # settings that decide what the accuracy is


def read_studies(
    workdirs: Sequence[Path], folder: Path | None = None, baseline: str = "", x_axis: str = ""
) -> ReportData:
    """Read one study, or several as one that compares them (`compare`).

    The report is for a folder; None is that of the first study.

    Raises:
      UserError: as `read_workdir` and `compare`; if a folder is given twice; or if a baseline is given for one study.
    """
    twice = [path for path, count in Counter(path.resolve() for path in workdirs).items() if count > 1]
    if twice:
        raise UserError(f"{twice[0]}: this study is given twice")
    if len(workdirs) > 1:
        studies = [read_workdir(path) for path in workdirs]
        return compare(studies, folder or studies[0].workdir, baseline, x_axis)
    if baseline:
        raise UserError(f"--baseline={baseline}: only a comparison of several studies takes it; name several folders")
    study = read_workdir(workdirs[0], x_axis)
    return dataclasses.replace(study, workdir=folder) if folder else study


def names_of(studies: Sequence[ReportData]) -> list[str]:
    """Return a name for each study: its own one, with the folder where several studies have the same name."""
    names = [str(study.manifest.get("name") or study.workdir.name) for study in studies]
    for part in (1, 2):
        count = Counter(names)
        folders = ["/".join(study.workdir.resolve().parts[-part:]) for study in studies]
        names = [folder if count[name] > 1 else name for name, folder in zip(names, folders)]
    count = Counter(names)
    return [f"{name} ({i + 1})" if count[name] > 1 else name for i, name in enumerate(names)]


def compare(studies: Sequence[ReportData], folder: Path, baseline: str = "", x_axis: str = "") -> ReportData:
    """Make one `ReportData` of several studies.

    Args:
      studies: the studies, at least two.
      folder: the folder for the report.
      baseline: the sweep point that all others are compared with: an id of the first study, or 'STUDY: ID'. Empty:
        each point is compared with the point of the first study that is the baseline of its settings.
      x_axis: as in `read_workdir`; empty: that of the first study, or the rounds where a study has not recorded it.

    Raises:
      UserError: if there is no such sweep point or x axis.
    """
    named = dict(zip(names_of(studies), studies))
    names = list(named)
    at, remarks = _common_round(named)
    ids = [{point["id"]: f"{name}: {point['id']}" for point in study.points} for name, study in named.items()]
    parts = [(i, p) for i, study in enumerate(studies) for p in range(len(study.points))]
    paths = dict.fromkeys(axis.path for study in studies for axis in study.axes)
    summaries, points = [_summary_at(study, at) for study in studies], []
    for i, p in parts:
        point = summaries[i]["points"][p]
        settings = {STUDY: names[i], **{path: studies[i].value(p, path) for path in paths}}
        points.append({**point, "id": ids[i][point["id"]], "overrides": settings, "seeds": list(studies[i].seeds(p))})
    for entry, other, part in zip(points, references(studies, points, parts, baseline), parts):
        entry["baseline"] = None if other is None else points[other]["id"]
        entry["difference_to_baseline"] = None if other is None else accuracy_gap(studies, part, parts[other], at)
    found = {entry["baseline"] for entry in points} - {None}
    metrics = {entry["key"]: entry for study in reversed(studies) for entry in study.summary.get("metrics", ())}
    summary = {"schema": SCHEMA, "baseline": found.pop() if len(found) == 1 else "", "points": points}
    summary |= {"metrics": list(metrics.values())} if metrics else {}
    if at and (remarks or any("round" in study.summary for study in studies)):  # otherwise it is the end of all
        summary["round"] = at
    meanings = {study.summary.get("accuracy_is") for study in studies}
    summary |= {"accuracy_is": meanings.pop()} if len(meanings) == 1 and None not in meanings else {}
    manifest_points = [_renamed(study.manifest.get("points", ()), "id", of) for study, of in zip(studies, ids)]
    manifest = {
        "schema": SCHEMA,
        "name": ", ".join(names),
        "title": f"{', '.join(names[:-1])} and {names[-1]} compared",
        "status": "finished" if all(study.manifest.get("status") != "running" for study in studies) else "running",
        "config": shared_config([study.config for study in studies]),
        "points": list(itertools.chain(*manifest_points)),
        "seeds": sorted({seed for study in studies for p in range(len(study.points)) for seed in study.seeds(p)}),
    }
    x, of_x = _x_axis(named, summary, x_axis)
    own = [f"{name}: {study.remarks[0]}" for name, study in named.items() if study.remarks]
    return ReportData(
        folder,
        manifest,
        summary,
        {of[name]: curve for study, of in zip(studies, ids) for name, curve in study.curves.items()},
        x,
        list(itertools.chain(*(_renamed(study.lines, "point", of) for study, of in zip(studies, ids)))),
        remarks=(*own, *_unlike(named), *remarks, *of_x),
        studies=tuple(studies),
        parts=tuple(parts),
    )


def _renamed(entries: Iterable[Mapping[str, Any]], key: str, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the entries of a study's sweep points with the points' ids in the comparison under a key."""
    return [{**entry, key: ids[entry[key]]} for entry in entries if entry[key] in ids]


def _end(study: ReportData) -> int:
    """Return the round of a study's results."""
    found = study.summary.get("round")
    return int(max(curve.rounds[-1] for curve in study.curves.values()) if found is None else found)


def _common_round(studies: Mapping[str, ReportData]) -> tuple[int | None, list[str]]:
    """Return the round of the results, or None if the studies have evaluated none in common, and what to say of it."""
    ends = [_end(study) for study in studies.values()]
    if len(set(ends)) == 1:
        return ends[0], []
    each = ", ".join(f"{name} at round {end}" for name, end in zip(studies, ends))
    rounds = [
        set(map(int, curve.rounds))
        for study in studies.values()
        for curve in study.curves.values()
        if curve.rounds[-1] >= min(ends)
    ]
    common = {r for r in set.intersection(*rounds) if 0 < r <= min(ends)}
    if not common:
        return None, [
            f"The studies end at different rounds ({each}) and have evaluated no round in common: each result"
            " is that of the study's own end."
        ]
    at = max(common)
    return at, [
        f"The studies end at different rounds ({each}). All results below are those at round {at}, the last one"
        " that all have evaluated."
    ]


def _summary_at(study: ReportData, at: int | None) -> dict[str, Any]:
    """Return the summary of a study at an evaluated round."""
    if at is None or _end(study) == at:
        return study.summary
    said: dict[str, Any] = {key: study.summary[key] for key in ("metrics", "accuracy_is") if key in study.summary}
    found = summarize_at({**study.manifest, **said, "points": study.points}, by_run(study.lines), at)
    for p, entry in enumerate(found["points"]):
        arrays = {key: of for key in ("distance_moved", "is_mobile") if (of := study.history(p, key)) is not None}
        evaluated = np.flatnonzero(study.curves[entry["id"]].rounds == at)
        if len(arrays) == 2 and len(evaluated):
            moved, mobile = arrays["distance_moved"][:, evaluated[0]], arrays["is_mobile"]
            entry["distance_moved_per_mobile_client"] = float(moved[mobile].mean()) if mobile.any() else 0.0
    return found


def _x_axis(studies: Mapping[str, ReportData], summary: Mapping[str, Any], wanted: str) -> tuple[str, list[str]]:
    """Return the x axis of the accuracy curves, and what to say of it.

    Raises:
      UserError: if there is no such axis, or if a study has not recorded it.
    """
    x = wanted or next(iter(studies.values())).x_axis
    known = [ROUNDS, *axes_of(summary)]
    if x not in known:
        raise UserError(f"the x axis is {x!r}; these studies have {', '.join(known)}")
    key = "" if x == ROUNDS else axes_of(summary)[x].key
    lack = [name for name, study in studies.items() if any(key not in c.values for c in study.curves.values())]
    if not key or not lack:
        return x, []
    if wanted:
        raise UserError(
            f"the x axis is {x!r}, which {', '.join(lack)} has not recorded; choose another, such as {ROUNDS}"
        )
    return ROUNDS, [f"{', '.join(lack)} has not recorded {x}, so the x axis is the rounds."]


def _unlike(studies: Mapping[str, ReportData]) -> list[str]:
    """Return a sentence if the accuracies of the studies are not the same quantity."""
    differ = []
    for path in MEANING:
        values = [show(study.value(0, path)) for study in studies.values()]
        if len(set(values)) > 1:
            differ.append(f"{path} is {', '.join(f'{value} in {name}' for name, value in zip(studies, values))}")
    said = "The studies do not measure the same accuracy, so compare them with care"
    return [f"{said}: {'; '.join(differ)}."] if differ else []


_HEADER = ("point", "baseline", "difference_mean", "difference_ci95", "paired", "pairs", "why_not_paired")


class Same(NamedTuple):
    """A sweep point and the first study's point with the same settings, as cells of a table."""

    label: str
    accuracy: Cell
    other: Cell
    difference: Cell
    kind: str  # whether the difference is paired


def names_in(study: ReportData) -> list[str]:
    """Return the names of the compared studies, in order."""
    return list(dict.fromkeys(str(point["overrides"][STUDY]) for point in study.points))


def describe_comparison(study: ReportData) -> dict[str, Any] | None:
    """Return what the template of the page needs of a comparison, or None if the run is one study."""
    if not study.studies:
        return None
    names = names_in(study)
    named = dict(zip(names, study.studies))
    configs = {name: {"inputs": {}, **one.config} for name, one in named.items()}
    return {
        "names": names,
        "studies": [{"name": name, "setting": describe_setting(one)} for name, one in named.items()],
        "settings": differing(configs),
        "paired": list(describe_pairing(study)),
        "lacking": lacking(named),
        "same": same_settings(study),
        "first": names[0],
    }


def describe_pairing(study: ReportData) -> Iterator[str]:
    """Yield a sentence for each pair of studies: whether their runs are paired by seed, and if not, why."""
    names, of_pairs = names_in(study), dict[tuple[int, int], list[tuple[str, int]]]()
    ids = [point["id"] for point in study.points]
    twins = counterparts(study.points, study.parts)
    for p, (i, q) in enumerate(study.parts):
        others = [twins[p], ids.index(study.points[p]["baseline"]) if study.points[p].get("baseline") else None]
        for j, r in {study.parts[other] for other in others if other is not None}:
            if i != j:
                a, b = study.studies[i], study.studies[j]
                of_pairs.setdefault((i, j), []).append((why_unpaired(a, q, b, r), common_seeds(a, q, b, r)))
    for (i, j), found in of_pairs.items():
        seeds, reasons = max(count for _, count in found), list(dict.fromkeys(why for why, _ in found if why))
        one, two = names[i], names[j]
        if not reasons:
            agree = f"the data, their partition and the first places agree under {seeds} common seed"
            yield f"“{one}” is paired with “{two}” by seed: {agree}{'s' if seeds > 1 else ''}."
        elif all(why for why, _ in found):
            welch = "The intervals of their differences are Welch's, which are wider."
            yield f"“{one}” is not paired with “{two}”: {'; '.join(reasons)}. {welch}"
        else:
            unpaired = f"{sum(bool(why) for why, _ in found)} are not paired by seed ({'; '.join(reasons)})"
            yield f"Of {len(found)} differences between “{one}” and “{two}”, {unpaired} and have Welch's intervals."


def lacking(studies: Mapping[str, ReportData]) -> list[str]:
    """Return a sentence for each study that has not recorded metrics which another one has."""
    titles = {metric.key: metric.title for study in studies.values() for metric in declared(study.summary)}
    has = []
    for study in studies.values():
        last = {line["point"]: line for line in study.lines}.values()
        has.append({key for line in last for key, value in line.items() if value is not None and key in titles})
    every = set().union(*has)
    return [
        f"{name} has not recorded {', '.join(titles[key] for key in titles if key in every - of)}."
        for name, of in zip(studies, has)
        if every - of
    ]


def same_settings(study: ReportData) -> list[Same]:
    """Return the sweep points whose settings a point of the first study has as well, with their differences to it."""
    labels, found = looks(study), []
    for p, q in enumerate(counterparts(study.points, study.parts)):
        if q is None or study.parts[p][0] == 0:
            continue
        gap = accuracy_gap(study.studies, study.parts[p], study.parts[q], study.summary.get("round"))
        here, there = (percent_cell(study.points[k]["final_accuracy"]) for k in (p, q))
        kind = f"{gap['seeds']} seeds in pairs" if gap["paired"] else "not paired"
        found.append(Same(labels[p].label, here, there, percent_cell(gap, "+"), kind))
    return found


def write_differences(study: ReportData, folder: Path) -> Path:
    """Write differences.csv into a folder, and return its path.

    It has each sweep point's difference to its baseline, as fractions, and whether it is paired.
    """
    rows: list[Sequence[Any]] = [_HEADER]
    for point in study.points:
        gap = point.get("difference_to_baseline") or {}
        numbers = (gap.get(key) for key in ("mean", "ci95", "paired", "seeds", "why"))
        rows.append([point["id"], point.get("baseline"), *numbers])
    return write_csv(folder / "differences.csv", rows)
