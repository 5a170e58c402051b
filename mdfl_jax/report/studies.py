"""The part of a comparison's page that one study does not have: the studies, how they differ, and what is paired."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.report.described import setting
from mdfl_jax.report.pairing import common_seeds, differing, why_unpaired
from mdfl_jax.report.read import Run, declared
from mdfl_jax.report.references import STUDY, accuracy_gap, counterparts
from mdfl_jax.report.results_table import Cell, percent_cell
from mdfl_jax.report.style import looks
from mdfl_jax.storage import disk

HEADER = ("point", "baseline", "difference_mean", "difference_ci95", "paired", "pairs", "why_not_paired")


class Same(NamedTuple):
    """A sweep point and the first study's point with the same settings, as cells of a table."""

    label: str
    accuracy: Cell
    other: Cell
    difference: Cell
    kind: str  # whether the difference is paired


def names_in(run: Run) -> list[str]:
    """Return the names of the compared studies, in order."""
    return list(dict.fromkeys(str(point["overrides"][STUDY]) for point in run.points))


def comparison(run: Run) -> dict[str, Any] | None:
    """Return what the template of the page needs of a comparison, or None if the run is one study."""
    if not run.studies:
        return None
    names = names_in(run)
    configs = {name: {"inputs": {}, **study.config} for name, study in zip(names, run.studies)}
    return {
        "names": names,
        "studies": [{"name": name, "setting": setting(study)} for name, study in zip(names, run.studies)],
        "settings": differing(configs),
        "paired": list(paired_told(run)),
        "lacking": lacking(run.studies, names),
        "same": same_settings(run),
        "first": names[0],
    }


def paired_told(run: Run) -> Iterator[str]:
    """Yield for each two studies whether their runs are paired by seed, and if not why, in a sentence."""
    names, of_pairs = names_in(run), dict[tuple[int, int], list[tuple[str, int]]]()
    ids = [point["id"] for point in run.points]
    twins = counterparts(run.points, run.parts)
    for p, (i, q) in enumerate(run.parts):
        others = [twins[p], ids.index(run.points[p]["baseline"]) if run.points[p].get("baseline") else None]
        for j, r in {run.parts[other] for other in others if other is not None}:
            if i != j:
                a, b = run.studies[i], run.studies[j]
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


def lacking(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """Return a sentence for each study that has not recorded metrics which another one has."""
    titles = {metric.key: metric.title for run in runs for metric in declared(run.summary)}
    has = []
    for run in runs:
        last = {line["point"]: line for line in run.lines}.values()
        has.append({key for line in last for key, value in line.items() if value is not None and key in titles})
    every = set().union(*has)
    return [
        f"{name} has not recorded {', '.join(titles[key] for key in titles if key in every - of)}."
        for name, of in zip(names, has)
        if every - of
    ]


def same_settings(run: Run) -> list[Same]:
    """Return the sweep points whose settings a point of the first study has as well, with their differences to it."""
    labels, found = looks(run), []
    for p, q in enumerate(counterparts(run.points, run.parts)):
        if q is None or run.parts[p][0] == 0:
            continue
        gap = accuracy_gap(run.studies, run.parts[p], run.parts[q], run.summary.get("round"))
        here, there = (percent_cell(run.points[k]["final_accuracy"]) for k in (p, q))
        kind = f"{gap['seeds']} seeds in pairs" if gap["paired"] else "not paired"
        found.append(Same(labels[p].label, here, there, percent_cell(gap, "+"), kind))
    return found


def write_differences(run: Run, folder: Path) -> Path:
    """Write differences.csv: each sweep point's difference to its baseline, as fractions, and whether it is paired.

    Args:
      run: the studies as one.
      folder: an existing folder.

    Returns:
      The path of the file.
    """
    path = folder / "differences.csv"
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for point in run.points:
        gap = point.get("difference_to_baseline") or {}
        numbers = [gap.get("mean"), gap.get("ci95"), gap.get("paired"), gap.get("seeds"), gap.get("why")]
        writer.writerow([point["id"], point.get("baseline"), *numbers])
    disk.write_text(path, text.getvalue())
    return path
