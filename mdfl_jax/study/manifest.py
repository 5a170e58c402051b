"""The content of config.json: which study, or which part of it, a workdir holds, and how it was made."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from mdfl_jax.config.families import effective
from mdfl_jax.config.points import Point, static_key
from mdfl_jax.config.sections import flat
from mdfl_jax.core.metric import SCHEMA, Shown
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.storage.disk import plain
from mdfl_jax.study.identity import digest, of_runs
from mdfl_jax.study.study import Study
from mdfl_jax.study.whole import restricted
from mdfl_jax.tasks.losses import LOSSES, loss_named


def places(study: Study) -> dict[int, int]:
    """Return the index in the files of each sweep point of which runs are to be done, by its index in the study."""
    return {point: place for place, point in enumerate(sorted({run.point for run in study.to_do()}))}


def _entry(point: Point) -> dict[str, Any]:
    program = digest(of_runs(plain(flat(dataclasses.asdict(static_key(point.experiment))))))
    numbers = effective(point.experiment)
    return {"id": point.id, "overrides": point.overrides, "numbers": numbers, "program": program}


def wanted(study: Study) -> dict[str, Any]:
    """Return the part of config.json that says which runs are wanted: the configuration, the points and the seeds.

    If only some runs of a study are to be done, it is that of a part (`mdfl_jax.study.whole.restricted`).
    """
    entries = [_entry(point) for point in study.points]
    found: dict[str, Any] = {"config": study.config, "points": entries, "seeds": list(study.seeds)}
    return restricted(found, [(run.point, run.seed) for run in study.to_do()])


def own_metrics(study: Study) -> list[Shown]:
    """Return the descriptions of the metrics that are not built in."""
    groups = [group for group in study.groups if study.to_do(group)]
    metrics = {metric.name: metric for group in groups for metric in group.simulation.metrics}
    return [metric.described for metric in metrics.values() if metric not in BUILT_IN]


def accuracy_is(study: Study) -> str:
    """Return what is called accuracy in a study, if it is not the share of labels that are right; else ""."""
    found = []
    for group in study.groups:
        if group.dataset is not None:
            asked = study.points[group.points[0]].experiment.model.loss
            found.append(LOSSES[loss_named(asked, group.dataset.targets)].accuracy_is)
    return "; ".join(filter(None, dict.fromkeys(found)))


def manifest_of(study: Study, how_made: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of config.json for a running study.

    Args:
      study: The study.
      how_made: The entries that say how its results are made (`mdfl_jax.storage.provenance`).
    """
    found, own, meaning = wanted(study), own_metrics(study), accuracy_is(study)
    return {
        "schema": SCHEMA,
        "name": study.experiment.name,
        "title": study.experiment.title,
        "status": "running",
        "config": found.pop("config"),
        "points": found.pop("points"),
        "seeds": found.pop("seeds"),
        **({"shard": study.shard} if study.shard else {}),
        **found,
        **({"metrics": [metric._asdict() for metric in own]} if own else {}),
        **({"accuracy_is": meaning} if meaning else {}),
        "pretrained": study.pretrained,
        "runs_per_batch": [group.runs_per_batch for group in study.groups],
        **how_made,
        "compile_seconds": None,
        "run_seconds": None,
    }
