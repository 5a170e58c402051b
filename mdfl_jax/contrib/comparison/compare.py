"""Compares studies: makes one study of several, so that every panel of the report shows them together.

A sweep point keeps its settings and has one more, its study. Results are taken at a round that all studies have
evaluated. Differences are to a point of the first study. They are paired by seed where the two runs share data and
places; all others have Welch's interval.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mdfl_jax.contrib.comparison.pairing import pairs_of, why_unpaired
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.metric import SCHEMA
from mdfl_jax.core.outcomes import by_run
from mdfl_jax.core.sweep_text import show
from mdfl_jax.report.registry import COMPARISONS, Chart, panel
from mdfl_jax.report.setting import describe_setting
from mdfl_jax.report.sheet import Cell, percent_cell
from mdfl_jax.report.style import looks
from mdfl_jax.results.results import ROUNDS, Results
from mdfl_jax.results.statistics import difference
from mdfl_jax.results.unfinished import summarize_at


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
    points: Sequence[Mapping[str, Any]], parts: Sequence[tuple[Results, int]], baseline: str
) -> list[int | None]:
    """Return for each sweep point the index of the one that it is compared with, or None (`compare`)."""
    study = parts[0][0]
    first = [p for p, (of, _) in enumerate(parts) if of is study]
    if baseline:
        known = {point["id"]: p for p, point in enumerate(points)}
        known = {study.points[p]: p for p in first} | known
        if baseline not in known:
            raise UserError(unknown_name("baseline", baseline, known))
        return [known[baseline]] * len(points)
    ids = {study.points[p]: p for p in first}
    own = {p: ids.get(study.outcomes[p]["baseline"]) for p in first}
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


def counterparts(points: Sequence[Mapping[str, Any]], parts: Sequence[tuple[Results, int]]) -> list[int | None]:
    """Return for each sweep point the index of the first study's point with the same settings, or None."""

    def settings(p: int) -> tuple[str, ...]:
        return tuple(show(value) for path, value in points[p]["overrides"].items() if path != STUDY)

    index = {settings(p): p for p, (study, _) in enumerate(parts) if study is parts[0][0]}
    return [index.get(settings(p)) for p in range(len(points))]


def accuracy_gap(part: tuple[Results, int], other: tuple[Results, int], at: int | None) -> dict[str, Any]:
    """Return the accuracy of a sweep point minus that of another one: `difference`, and 'why' it is not paired.

    Both points are given by their study and their index there; ``at`` is the round, None for the end.
    """
    (a, p), (b, q) = part, other
    why = "" if a is b else why_unpaired(a, p, b, q)
    curves = [a.curve(p), b.curve(q)]
    values = [curve.at(int(curve.rounds[-1]) if at is None else at) for curve in curves]
    return {**difference(values[0], values[1], paired=not why), "why": why}


MEANING = ("judged", "data.name", "data.limit_test", "model.loss")  # settings that decide what the accuracy is


@COMPARISONS.register("studies")
def read_studies(workdirs: Sequence[Path], baseline: str = "", x_axis: str = "") -> Results:
    """Read several studies as one that compares them (`compare`).

    Raises:
      UserError: as `Results.read` and `compare`; or if a folder is given twice.
    """
    twice = [path for path, count in Counter(path.resolve() for path in workdirs).items() if count > 1]
    if twice:
        raise UserError(f"{twice[0]}: this study is given twice")
    return compare([Results.read(path).shown() for path in workdirs], baseline, x_axis)


def names_of(studies: Sequence[Results]) -> list[str]:
    """Return a name for each study: its own one, with the folder where several studies have the same name."""
    paths = [study.workdir or Path() for study in studies]
    names = [str(study.manifest.get("name") or path.name) for study, path in zip(studies, paths)]
    for part in (1, 2):
        count = Counter(names)
        folders = ["/".join(path.resolve().parts[-part:]) for path in paths]
        names = [folder if count[name] > 1 else name for name, folder in zip(names, folders)]
    count = Counter(names)
    return [f"{name} ({i + 1})" if count[name] > 1 else name for i, name in enumerate(names)]


def compare(studies: Sequence[Results], baseline: str = "", x_axis: str = "") -> Results:
    """Make one `Results` of several studies. Its folder is that of the first one.

    Args:
      studies: the studies, at least two.
      baseline: the sweep point that all others are compared with: an id of the first study, or 'STUDY: ID'. Empty:
        each point is compared with the point of the first study that is the baseline of its settings.
      x_axis: as in `Results.shown`; empty: that of the first study, or the rounds where a study has not recorded it.

    Raises:
      UserError: if there is no such sweep point or x axis.
    """
    named = dict(zip(names_of(studies), studies))
    names = list(named)
    at, remarks = _common_round(named)
    ids = [{point: f"{name}: {point}" for point in study.points} for name, study in named.items()]
    parts = [(study, p) for study in studies for p in range(len(study.points))]
    paths = dict.fromkeys(axis.path for study in studies for axis in study.axes)
    points = []
    for (name, study), of in zip(named.items(), ids):
        for p, point in enumerate(_outcomes_at(study, at)):
            settings = {STUDY: name, **{path: study.value(p, path) for path in paths}}
            points.append({**point, "id": of[point["id"]], "overrides": settings, "seeds": study.seeds_of(p)})
    for entry, other, part in zip(points, references(points, parts, baseline), parts):
        entry["baseline"] = None if other is None else points[other]["id"]
        entry["difference_to_baseline"] = None if other is None else accuracy_gap(part, parts[other], at)
    baselines = {entry["baseline"] for entry in points} - {None}
    metrics = {entry["key"]: entry for study in reversed(studies) for entry in study.summary.get("metrics", ())}
    summary = {"schema": SCHEMA, "baseline": baselines.pop() if len(baselines) == 1 else "", "points": points}
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
        "seeds": sorted({seed for study, p in parts for seed in study.seeds_of(p)}),
    }
    own = [f"{name}: {study.remarks[0]}" for name, study in named.items() if study.remarks]
    found = Results(
        manifest,
        summary,
        list(itertools.chain(*(_renamed(study.lines, "point", of) for study, of in zip(studies, ids)))),
        {},
        studies[0].workdir,
        x_axis=_x_axis(named, x_axis),
        remarks=(*own, *_unlike(named), *remarks),
        parts=tuple(parts),
    )
    return dataclasses.replace(found, pairing=pairs_of(found))


def _renamed(entries: Iterable[Mapping[str, Any]], key: str, ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the entries of a study's sweep points with the points' ids in the comparison under a key."""
    return [{**entry, key: ids[entry[key]]} for entry in entries if entry[key] in ids]


def _end(study: Results) -> int:
    """Return the round of a study's results."""
    found = study.summary.get("round")
    return int(max(curve.rounds[-1] for curve in study.curves.values()) if found is None else found)


def _common_round(studies: Mapping[str, Results]) -> tuple[int | None, list[str]]:
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


def _outcomes_at(study: Results, at: int | None) -> list[dict[str, Any]]:
    """Return what the summary of a study at an evaluated round says of its sweep points."""
    if at is None or _end(study) == at:
        return study.outcomes
    said: dict[str, Any] = {key: study.summary[key] for key in ("metrics", "accuracy_is") if key in study.summary}
    found = summarize_at({**study.manifest, **said, "points": study.outcomes}, by_run(study.lines), at)["points"]
    for p, entry in enumerate(found):
        arrays = {key: of for key in ("distance_moved", "is_mobile") if (of := study.history(p, key)) is not None}
        evaluated = np.flatnonzero(study.curves[entry["id"]].rounds == at)
        if len(arrays) == 2 and len(evaluated):
            moved, mobile = arrays["distance_moved"][:, evaluated[0]], arrays["is_mobile"]
            entry["distance_moved_per_mobile_client"] = float(moved[mobile].mean()) if mobile.any() else 0.0
    return found


def _x_axis(studies: Mapping[str, Results], wanted: str) -> str:
    """Return the x axis of the accuracy curves: the wanted one, or else the rounds if a study lacks the usual one.

    Raises:
      UserError: if there is no such axis, or if a study has not recorded it.
    """
    x = wanted or next(iter(studies.values())).x_axis
    axes = {name: metric.key for study in studies.values() for name, metric in study.x_axes.items()}
    if x not in (ROUNDS, *axes):
        raise UserError(f"the x axis is {x!r}; these studies have {', '.join([ROUNDS, *axes])}")
    has = lambda study: x == ROUNDS or all(axes[x] in curve.values for curve in study.curves.values())  # noqa: E731
    lack = [name for name, study in studies.items() if not has(study)]
    if lack and wanted:
        raise UserError(
            f"the x axis is {x!r}, which {', '.join(lack)} has not recorded; choose another, such as rounds"
        )
    return ROUNDS if lack else x


def _unlike(studies: Mapping[str, Results]) -> list[str]:
    """Return a sentence if the accuracies of the studies are not the same quantity."""
    differ = []
    for path in MEANING:
        values = [show(study.value(0, path)) for study in studies.values()]
        if len(set(values)) > 1:
            differ.append(f"{path} is {', '.join(f'{value} in {name}' for name, value in zip(studies, values))}")
    said = "The studies do not measure the same accuracy, so compare them with care"
    return [f"{said}: {'; '.join(differ)}."] if differ else []


class Same(NamedTuple):
    """A sweep point and the first study's point with the same settings, as cells of a table."""

    label: str
    accuracy: Cell
    other: Cell
    difference: Cell
    kind: str  # whether the difference is paired


def names_in(study: Results) -> list[str]:
    """Return the names of the compared studies, in order."""
    return list(dict.fromkeys(str(point["overrides"][STUDY]) for point in study.outcomes))


SAID = "Their main settings, what differs, and which runs are paired by seed."


@panel("studies", caption=lambda _: SAID, applies=lambda study: bool(study.parts), place=0, title="The studies")
def studies(study: Results) -> Chart:
    """Say what the studies are, in which settings they differ, and which of their runs are paired."""
    names = names_in(study)
    named = dict(zip(names, study.studies))
    found = {
        "studies": [{"name": name, "setting": describe_setting(one)} for name, one in named.items()],
        "settings": differing({name: {"inputs": {}, **one.config} for name, one in named.items()}),
        "paired": list(describe_pairing(study)),
        "same": same_settings(study),
        "first": names[0],
    }
    loader = FileSystemLoader(Path(__file__).parent)
    pages = Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    return Chart("html", {"html": pages.get_template("studies.html.jinja").render(names=names, **found)})


def describe_pairing(study: Results) -> Iterator[str]:
    """Yield a sentence for each pair of studies: whether their runs are paired by seed, and if not, why."""
    names, of_pairs = names_in(study), dict[tuple[str, str], list[str]]()
    ids, of_study = study.points, dict(zip(study.studies, names))
    twins = counterparts(study.outcomes, study.parts)
    for p, (a, q) in enumerate(study.parts):
        base = study.outcomes[p]["baseline"]
        others = [twins[p], ids.index(base) if base else None]
        for b, r in dict.fromkeys(study.parts[other] for other in others if other is not None):
            if a is not b:
                of_pairs.setdefault((of_study[a], of_study[b]), []).append(why_unpaired(a, q, b, r))
    for (one, two), found in of_pairs.items():
        reasons = list(dict.fromkeys(filter(None, found)))
        if not reasons:
            yield f"“{one}” is paired with “{two}” by seed: the data, their partition and the first places agree."
        else:
            which = "" if all(found) else f" in {sum(map(bool, found))} of {len(found)} differences"
            welch = "The intervals are then Welch's, which are wider."
            yield f"“{one}” is not paired with “{two}”{which}: {'; '.join(reasons)}. {welch}"


def same_settings(study: Results) -> list[Same]:
    """Return the sweep points whose settings a point of the first study has as well, with their differences to it."""
    labels, found = looks(study), []
    for p, q in enumerate(counterparts(study.outcomes, study.parts)):
        if q is None or study.parts[p][0] is study.studies[0]:
            continue
        gap = accuracy_gap(study.parts[p], study.parts[q], study.summary.get("round"))
        here, there = (percent_cell(study.outcomes[k]["final_accuracy"]) for k in (p, q))
        kind = f"{gap['seeds']} seeds in pairs" if gap["paired"] else "not paired"
        found.append(Same(labels[p].label, here, there, percent_cell(gap, "+"), kind))
    return found
