"""A finished study that no run has made: numbers drawn from the sweep point and the seed, written in milliseconds."""

import dataclasses
import itertools
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from tiny import tiny_config

from mdfl_jax.config.points import Point, points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.config.sections import effective
from mdfl_jax.core.metric import NOTHING
from mdfl_jax.core.types import RunFacts
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.built_in.every_study import DIVERGENCE
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results.lines import metric_lines
from mdfl_jax.results.records import Measured, PointArrays, RunRecord, from_devices, write_record
from mdfl_jax.results.results import Results, write_views
from mdfl_jax.results.summary import PointRuns, summarize_point
from mdfl_jax.storage.disk import plain, write_json
from mdfl_jax.storage.study_files import CONFIG, STUDY_SCHEMA, run_name, run_path
from mdfl_jax.study.identity import name_run, other_config, run_config
from mdfl_jax.study.study import runs_per_batch

CLIENTS = 6


def measured(point: str, seed: int, rounds: int = 4, every: int = 2, mobile: int = 2) -> Measured:
    """What a run has measured. The first rounds are the same whatever the number of rounds."""
    rng = np.random.default_rng([zlib.crc32(point.encode()), seed])
    evaluated = np.arange(0, rounds + 1, every, dtype=np.int32)
    values: dict[str, np.ndarray] = {"round": evaluated}
    for metric in BUILT_IN:
        rows = 101 if metric.by_round else 51
        if metric.by_round and metric.still == NOTHING:  # no row before the first round
            drawn = rng.random((rows, *metric.dims(CLIENTS, 1)[1:]))[: len(evaluated[1:]) * every]
        else:
            shape = metric.dims(CLIENTS, 1)[1:] if metric.by_round else metric.dims(CLIENTS)
            drawn = rng.random((rows, *shape))[: rounds + 1 if metric.by_round else len(evaluated)]
        whole = np.issubdtype(metric.rows.dtype, np.integer)
        values[metric.name] = (256 * drawn if whole else drawn).astype(metric.rows.dtype)
    values["rounds_done"] = evaluated
    values["bits"] = (1000 * values["bits"]).astype(np.uint32)
    values["messages"] = (1000 * values["messages"]).astype(np.int32)
    for name in ("validation_loss", *DIVERGENCE):  # was not measured, and has not diverged
        values[name] = np.full(len(evaluated), np.nan, np.float32)
    facts = RunFacts(rng.integers(0, 9, (CLIENTS, 10)), np.arange(CLIENTS) < mobile, np.zeros(CLIENTS, bool))
    metrics = Metrics(BUILT_IN, values)
    lines = plain(list(metric_lines(point, seed, metrics, facts.is_mobile, 64.0)))
    return from_devices(seed, metrics, facts, lines, 1.0, 2.0)


def put(folder: Path, name: str, found: Measured, config: Any, **header: Any) -> RunRecord:
    """Writes the record of a run, and reads it."""
    made = {"command": f"made {folder.name}", "commit": None, "versions": {}, "devices": [f"device of {folder.name}"]}
    said = {"config": config, "metrics": [], "accuracy_is": "", "goes_on_from": [], "other": {}, "made": made}
    write_record(run_path(folder, name), found, plain(said | header))
    return RunRecord(run_path(folder, name))


def summary_of(folder: Path, *found: Measured, target: float = 0.3) -> dict[str, Any]:
    """The entry in summary.json of a sweep point whose runs, with different seeds, have measured this."""
    records = [put(folder, f"made-{'0' * 16}-s{of.seed}-r{of.rounds[-1]}", of, {}) for of in found]
    shown = [metric.described for metric in BUILT_IN]
    return summarize_point(
        PointRuns({of.seed: of.lines for of in records}, PointArrays(records)), shown, target, "accuracy"
    )


def name_of(point: Point, seed: int, rounds: int = 0) -> str:
    """The name of a run of a sweep point that reads no files."""
    return run_name(name_run(point.experiment, {}, {}), seed, rounds or point.experiment.rounds)


def made(folder: Path, **changes: Any) -> Results:
    """Writes the workdir of a tiny study.

    Args:
      folder: The workdir.
      **changes: The configuration by path, as for `tiny_config`.
    """
    experiment = resolve(tiny_config(**changes))
    found, seeds = points(experiment), [experiment.first_seed + s for s in range(experiment.seeds)]
    entries = [
        {"id": p.id, "overrides": p.overrides, "numbers": effective(p.experiment), "program": "one"}
        | {"runs": [name_of(p, seed) for seed in seeds]}
        for p in found
    ]
    whole = {"schema": STUDY_SCHEMA, "name": experiment.name, "title": experiment.title, "status": "running"}
    whole |= {"config": dataclasses.asdict(experiment), "points": entries, "seeds": seeds, "pretrained": []}
    whole |= {"runs_per_batch": [runs_per_batch(experiment, len(entries))]}
    for point, seed in itertools.product(found, seeds):
        of = measured(point.id, seed, experiment.rounds, experiment.eval_every)
        own = point.experiment
        put(folder, name_of(point, seed), of, run_config(own), other=other_config(own))
    manifest = plain(whole)
    write_json(folder / CONFIG, manifest)
    write_views(folder, manifest)
    return Results.open(folder)
