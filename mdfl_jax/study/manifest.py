"""The content of config.json: which study, or which part of it, a workdir holds, and how it was made."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from mdfl_jax.config.families import effective
from mdfl_jax.config.points import Point, program_key
from mdfl_jax.config.sections import flat
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.results.studies import restricted
from mdfl_jax.storage.disk import plain
from mdfl_jax.storage.study_files import STUDY_SCHEMA
from mdfl_jax.study.identity import GROWS, digest, not_in_runs
from mdfl_jax.study.run_files import accuracy_is
from mdfl_jax.study.study import Study


def _program(point: Point) -> str:
    """Return what is the same for points that share a compiled program."""
    key, left_out = program_key(point.experiment), not_in_runs().union(GROWS)
    fields = {
        path: value for path, value in plain(flat(dataclasses.asdict(key.settings))).items() if path not in left_out
    }
    return digest(fields | {"switches": list(key.switches)})


def manifest_of(study: Study, how_made: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of config.json for a study that is to be run.

    If only some runs of a study are to be done, it is that of a part (`mdfl_jax.results.studies.restricted`).

    Args:
      study: The study.
      how_made: The entries that say how its results are made (`mdfl_jax.storage.provenance`).
    """
    points = [
        {
            "id": point.id,
            "overrides": point.overrides,
            "numbers": effective(point.experiment),
            "program": _program(point),
            "runs": study.names[p],
        }
        for p, point in enumerate(study.points)
    ]
    groups = [group for group in study.groups if study.to_do(group)]
    metrics = {metric.name: metric for group in groups for metric in group.simulation.metrics}
    own, meaning = [m.described._asdict() for m in metrics.values() if m not in BUILT_IN], accuracy_is(study, groups)
    whole: dict[str, Any] = {
        "schema": STUDY_SCHEMA,
        "name": study.experiment.name,
        "title": study.experiment.title,
        "status": "running",
        "config": study.config,
        "points": points,
        "seeds": list(study.seeds),
        **({"metrics": own} if own else {}),
        **({"accuracy_is": meaning} if meaning else {}),
        "pretrained": study.pretrained,
        "runs_per_batch": [group.runs_per_batch for group in study.groups],
        **how_made,
        "compile_seconds": None,
        "run_seconds": None,
    }
    return plain(restricted(whole, [(run.point, run.seed) for run in study.to_do()]))
