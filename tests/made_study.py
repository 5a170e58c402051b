"""A finished study that no run has made: numbers drawn from the sweep point and the seed, written in milliseconds."""

import dataclasses
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from tiny import tiny_config

from mdfl_jax.config.families import effective
from mdfl_jax.config.points import points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.metric import NOTHING
from mdfl_jax.core.parts import RunFacts
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.built_in.every_study import DIVERGENCE
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results.lines import metric_lines
from mdfl_jax.results.records import Record, Stored, from_devices
from mdfl_jax.results.write import write_results
from mdfl_jax.storage.checksums import CHECKSUMS
from mdfl_jax.storage.disk import plain
from mdfl_jax.study.study import runs_per_batch
from mdfl_jax.study.whole import restricted

CLIENTS = 6


def record_of(point: str, seed: int, rounds: int = 4, every: int = 2) -> Record:
    """The record of a run. The first rounds are the same whatever the number of rounds."""
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
        values[metric.name] = np.float32(drawn)
    values["bits"] = (1000 * values["bits"]).astype(np.uint32)
    values["messages"] = (1000 * values["messages"]).astype(np.int32)
    for name in ("validation_loss", *DIVERGENCE):  # was not measured, and has not diverged
        values[name] = np.full(len(evaluated), np.nan, np.float32)
    facts = RunFacts(rng.integers(0, 9, (CLIENTS, 10)), np.arange(CLIENTS) < 2, np.zeros(CLIENTS, bool))
    metrics = Metrics(BUILT_IN, values)
    lines = plain(list(metric_lines(point, seed, metrics, facts.is_mobile, 64.0)))
    return from_devices(seed, metrics, facts, lines, 1.0, 2.0)


def made(folder: Path, runs: list[tuple[int, int]] | None = None, **changes: Any) -> Stored:
    """Writes the workdir of a tiny study, or of a part of it.

    Args:
      folder: The workdir.
      runs: (index of the point, seed) of each run of the part; None: all runs.
      **changes: The configuration by path, as for `tiny_config`.
    """
    experiment = resolve(tiny_config(**changes))
    config = plain(dataclasses.asdict(experiment))
    entries = [
        {"id": p.id, "overrides": p.overrides, "numbers": effective(p.experiment), "program": "one"}
        for p in points(experiment)
    ]
    batch = runs_per_batch(experiment, len(entries))
    seeds = [experiment.first_seed + s for s in range(experiment.seeds)]
    manifest: dict[str, Any] = {"schema": 1, "name": experiment.name, "title": "", "status": "running"}
    manifest |= {"config": config, "points": plain(entries), "seeds": seeds, "pretrained": []}
    manifest["runs_per_batch"] = [batch]
    manifest |= {
        "command": f"made {folder.name}",
        "commit": None,
        "versions": {},
        "devices": [f"device of {folder.name}"],
    }
    manifest = restricted(manifest, runs) if runs is not None else manifest
    own = [point.get("seeds", manifest["seeds"]) for point in manifest["points"]]
    records = [
        [record_of(point["id"], seed, experiment.rounds, experiment.eval_every) for seed in of_point]
        for point, of_point in zip(manifest["points"], own)
    ]
    stored = Stored(manifest, records, [], "")
    folder.mkdir(parents=True)
    write_results(folder, stored)
    return stored


def without_checksums(folder: Path) -> None:
    """Takes the checksums of its texts from a finished study, since a test changes them."""
    manifest = json.loads((folder / "config.json").read_text())
    del manifest[CHECKSUMS]
    (folder / "config.json").write_text(json.dumps(manifest))
