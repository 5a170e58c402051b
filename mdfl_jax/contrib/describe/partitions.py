"""The data that the clients of a study will hold, drawn without training."""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from mdfl_jax.config.checks import keys_of
from mdfl_jax.config.sections import effective, task_of
from mdfl_jax.core.types import RunFacts
from mdfl_jax.data.heterogeneity import heterogeneity
from mdfl_jax.study.study import Group, Study

_WORDS = {
    "total_variation": "total variation distance",
    "earth_movers": "earth mover's distance (1-norm)",
    "effective_classes": "effective classes of a client",
    "size_gini": "Gini coefficient of the sizes",
    "size_variation": "coefficient of variation of the sizes",
    "smallest": "smallest client, samples",
    "largest": "largest client, samples",
    "empty": "clients without samples",
}
MOST_ROWS, MOST_COLUMNS = 100, 30  # clients and labels in a table on the terminal


class Drawn(NamedTuple):
    """The clients' data of the sweep points that draw the same.

    Attributes:
      points: The indices of these sweep points.
      counts: [S, N, C] int, the number of samples of each client and label, for each seed.
      is_mobile: [S, N] bool, which clients are mobile, of the first of these points.
    """

    points: list[int]
    counts: np.ndarray
    is_mobile: np.ndarray


def draw(study: Study) -> list[Drawn]:
    """Draw the clients' data of every sweep point and seed, with the functions and keys of the study itself.

    The programs are those of the state before the first round, of which the compiler keeps only the partition.

    Args:
      study: The study, from `mdfl_jax.study.make_study`.

    Returns:
      The different data, in the order of the first sweep point that has them.
    """
    found: list[Drawn] = []
    facts: dict[int, RunFacts] = {}
    for group in study.groups:

        def one(simulation: Any, data: Any, hparams: Any, key: jax.Array) -> RunFacts:
            return simulation.facts(simulation.first(data, hparams, key))

        program = jax.jit(jax.vmap(partial(one, group.simulation), in_axes=(None, None, 0)))
        for point, hparams in zip(group.points, group.hparams):
            keys = keys_of(study.points[point].experiment, study.seeds)
            facts[point] = jax.device_get(program(group.simulation.data, hparams, keys))
    for point in sorted(facts):
        counts, is_mobile = facts[point].label_counts, facts[point].is_mobile
        same = next((drawn for drawn in found if np.array_equal(drawn.counts, counts)), None)
        if same:
            same.points.append(point)
        else:
            found.append(Drawn([point], counts, is_mobile))
    return found


def describe_data(study: Study, drawn: Drawn) -> str:
    """Describe the clients' data in words: what was drawn, the counts of the first seed, the numbers over all seeds.

    Args:
      study: The study.
      drawn: Some of its data, from `draw`.
    """
    point, seeds = study.points[drawn.points[0]], study.seeds
    experiment, counts = point.experiment, drawn.counts[0]
    members = {path: value for path, value in effective(experiment).items() if path.startswith("data.")}
    of_datasets, dataset = task_of(experiment).of_datasets, _group(study, drawn).dataset
    group, groups = ("label", "labels") if dataset is None or dataset.stratum is None else ("stratum", "strata")
    many = groups if counts.shape[1] > 1 else group
    head = {
        "points": f"all {len(study.points)}" if len(drawn.points) == len(study.points) > 1 else _ids(study, drawn),
        "data": experiment.data.name,
        **({"read as": dataset.about} if dataset is not None and dataset.about else {}),
        "partition": ", ".join(
            [experiment.data.partition if of_datasets else "the task's own", *(f"{k}={v}" for k, v in members.items())]
        ),
        "clients": f"{counts.shape[0]}, which hold {counts.sum():,} samples of {counts.shape[1]} {many}",
        "seeds": f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0]),
    }
    lines = [f"{what:9}  {value}" for what, value in head.items()]
    lines += ["", f"samples of each {group}, seed {seeds[0]}", *_table(counts, groups), "", *_numbers(drawn.counts)]
    return "\n".join(lines)


def _group(study: Study, drawn: Drawn) -> Group:
    return next(group for group in study.groups if drawn.points[0] in group.points)


def _ids(study: Study, drawn: Drawn) -> str:
    return "; ".join(study.points[p].id for p in drawn.points)


def _table(counts: np.ndarray, groups: str) -> list[str]:
    """List the counts [N, C] as text: a row for each client, with its sum and its number of labels (or strata)."""
    clients, labels = counts.shape
    of_labels = range(labels) if labels <= MOST_COLUMNS else ()

    def row(name: str, of_client: np.ndarray) -> list[str]:
        return [name, *(str(of_client[c]) for c in of_labels), str(of_client.sum()), str((of_client > 0).sum())]

    rows = [["client", *map(str, of_labels), "all", groups]]
    rows += [row(str(i), counts[i]) for i in range(min(clients, MOST_ROWS))]
    rows.append(row("all", counts.sum(axis=0)))
    width = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(cells, width)) for cells in rows]
    if clients > MOST_ROWS:
        lines.insert(-1, f"... and {clients - MOST_ROWS} more clients")
    return lines


def _numbers(counts: np.ndarray) -> list[str]:
    """List the numbers of `heterogeneity` of counts [S, N, C], with mean and standard deviation over the seeds."""
    of_seeds = list(map(heterogeneity, counts))
    width = max(map(len, _WORDS.values()))
    rows = [f"{'over the seeds':{width}}  {'mean':>9}  {'std':>9}"]
    for name, words in _WORDS.items():
        values = np.array([getattr(found, name) for found in of_seeds])
        deviation = f"{values.std(ddof=1):9.4g}" if len(values) > 1 else f"{'-':>9}"
        rows.append(f"{words:{width}}  {values.mean():9.4g}  {deviation}")
    return rows
