"""Puts the results of several workdirs together: of other seeds or other sweep points, perhaps from other machines.

Only their files are read: no data, no files of the user and no device are needed.
"""

import itertools
import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mdfl_jax.config.points import MOST_RUNS
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.outcomes import name_of, text_of
from mdfl_jax.core.papers import united
from mdfl_jax.core.sweep_text import split_axes
from mdfl_jax.results.records import RunRecord, read_records, read_study
from mdfl_jax.results.results import Results, models_of, write_views
from mdfl_jax.storage import disk
from mdfl_jax.storage.disk import plain
from mdfl_jax.storage.study_files import (
    CONFIG,
    MODEL_FOLDER,
    RUNS,
    STREETS,
    STUDY_SCHEMA,
    locked,
    read_config,
    runs_in,
    state_path,
)
from mdfl_jax.study.identity import DIGESTS, Field, config_fields, differences_in_words, not_in_runs, typed
from mdfl_jax.study.workdir import inspect_workdir
from mdfl_jax.study.workers import Workers

_Axes = dict[tuple[str, ...], list[tuple[Any, ...]]]


def merge(folders: Sequence[Path], out: Path) -> Results:
    """Write the study that several workdirs hold together.

    The whole study has each combination of the values that the axes have in any part, under each seed of any part. It
    has the name, the title and so on of the first part.

    Args:
      folders: The workdirs, each with a finished study.
      out: The workdir to write, which holds no other study.

    Returns:
      The results.

    Raises:
      UserError: If a folder holds no study, if the studies are of different kinds, if two of them disagree about a run,
        if runs are missing, or if ``out`` holds something. Nothing is written then.
    """
    parts = [_Part(folder, read_study(folder)) for folder in dict.fromkeys(folders)]
    for part in parts[1:]:
        _check_alike(parts[0], part)
    manifest = _whole(parts)
    records = _records(parts, manifest)
    wanted = [(p, seed) for p in range(len(manifest["points"])) for seed in manifest["seeds"]]
    if missing := [run for run in wanted if run not in records]:
        (p, seed), count = missing[0], f"{len(missing)} of {len(wanted)} runs are missing"
        raise UserError(f"{count}, such as point {manifest['points'][p]['id']!r}, seed {seed}; add their workdirs")
    for p, point in enumerate(manifest["points"]):
        point["runs"] = [records[p, seed].name for seed in manifest["seeds"]]
    if (out / CONFIG).exists() and {*runs_in(read_config(out))} != {*runs_in(manifest)}:
        raise UserError(f"--workdir={out}: it holds another study; choose another folder")
    inspect_workdir(out, manifest)  # without a config.json, it may be left from a merge that was stopped
    with disk.writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        if others := Workers(out).others():
            raise UserError(f"--workdir={out}: {others[0]} computes runs there")
        for folder in ("", RUNS, MODEL_FOLDER):
            disk.remove_parts(out / folder)
        for record in records.values():
            workdir = record.path.parent.parent
            for path in (record.path, state_path(workdir, record.name), *models_of(workdir, record.name).values()):
                _link(path, out / path.parent.name / path.name)
        for part in parts:
            _link(part.workdir / STREETS, out / STREETS)
        return write_views(out, manifest)


def _link(path: Path, new: Path) -> None:
    """Bring a file to a new place, unless it is not there: as a hard link where the file system has them."""

    def make(new: Path) -> None:
        new.unlink(missing_ok=True)
        try:
            os.link(path, new)
        except OSError:
            shutil.copy2(path, new)

    if path.is_file() and not new.exists():
        disk.write(new, make)


@dataclass(frozen=True)
class _Part:
    """A workdir and the content of its config.json."""

    workdir: Path
    manifest: Mapping[str, Any]

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The fields of its configuration by path."""
        return config_fields(self.manifest["config"])

    def values(self, point: Mapping[str, Any], paths: Iterable[str]) -> tuple[Any, ...]:
        """Return the values of one of its points for some fields. One that it does not vary is as configured."""
        found = (point["overrides"].get(path, self.fields.get(path)) for path in paths)
        return tuple(tuple(value) if isinstance(value, list) else value for value in found)

    @property
    def swept(self) -> set[str]:
        """The fields that it varies."""
        return {path for point in self.manifest["points"] for path in point["overrides"]}


def _check_alike(first: _Part, other: _Part) -> None:
    """Check that two workdirs hold parts of one study: fields that no sweep varies, rounds and files are the same."""
    here, there = first.fields, other.fields
    free = not_in_runs().union({"seeds", "first_seed", "sweep"}, first.swept, other.swept)
    paths = [path for path in dict.fromkeys([*here, *there]) if path not in free and here.get(path) != there.get(path)]
    folders = (f"in {other.workdir}", f"in {first.workdir}")
    words = f"{other.workdir} and {first.workdir} cannot be merged: "
    if paths:
        fields = (Field(path, there.get(path), here.get(path), *folders) for path in paths)
        raise UserError(words + differences_in_words(fields))
    for entry in DIGESTS:
        ours, theirs = (part.manifest["config"].get(entry) or {} for part in (first, other))
        for name in ours:
            if name in theirs and ours[name] != theirs[name]:
                raise UserError(words + str(Field(name, theirs[name], ours[name], *folders)))


def _records(parts: Sequence[_Part], manifest: Mapping[str, Any]) -> dict[tuple[int, int], RunRecord]:
    """Return the records of the whole study's runs that are there, by (index of the point, seed).

    Workdirs that have the same run must agree about it to the bit.
    """
    axes = list(manifest["points"][0]["overrides"])
    index = {_Part(Path(), manifest).values(point, axes): p for p, point in enumerate(manifest["points"])}
    found: dict[tuple[int, int], RunRecord] = {}
    for part in parts:
        for point, records in zip(part.manifest["points"], read_records(part.workdir, part.manifest)):
            p = index[part.values(point, axes)]
            for record in records:
                other = found.setdefault((p, record.seed), record)
                if what := "its settings" if other.name != record.name else other.difference(record):
                    raise UserError(
                        f"{part.workdir} and {other.path.parent.parent} disagree about point "
                        f"{manifest['points'][p]['id']!r}, seed {record.seed}: {what} is not the same"
                    )
    return found


def _axes(parts: Sequence[_Part]) -> _Axes:
    """Return the axes of the whole sweep with the values that they have in any part."""
    axes: _Axes = {paths: [] for part in parts for paths in split_axes(str(part.manifest["config"].get("sweep") or ""))}
    every = list(itertools.chain(*axes))
    if twice := [path for path in every if every.count(path) > 1]:
        raise UserError(f"{twice[0]} is tied to another field in the sweep of one part and not in that of another")
    return {
        paths: list(dict.fromkeys(part.values(point, paths) for part in parts for point in part.manifest["points"]))
        for paths in axes
    }


def _whole(parts: Sequence[_Part]) -> dict[str, Any]:
    """Return the content of config.json of the whole study, without the names of its runs.

    Raises:
      UserError: If the whole study would have too many runs, since the seeds of the parts are far apart.
    """
    manifests = [part.manifest for part in parts]
    first, axes = manifests[0], _axes(parts)
    paths = list(itertools.chain(*axes))
    sweep = "; ".join(
        "+".join(tied) + "=" + ",".join("+".join(text_of(typed(p, v)) for p, v in zip(tied, value)) for value in values)
        for tied, values in axes.items()
    )
    seeds = sorted({int(seed) for part in parts for seed in part.manifest["seeds"]})
    count, num_points = seeds[-1] - seeds[0] + 1, math.prod(len(values) for values in axes.values())
    if count * num_points > MOST_RUNS:
        raise UserError(
            f"the parts have seeds from {seeds[0]} to {seeds[-1]}: the whole study would have {count * num_points:,} "
            f"runs; allowed: {MOST_RUNS:,}"
        )
    if all(manifest["config"].get("sweep") == first["config"].get("sweep") for manifest in manifests):
        sweep = first["config"].get("sweep") or ""
    config = {**first["config"], "sweep": sweep, "first_seed": seeds[0], "seeds": count}
    for entry in DIGESTS:
        if together := {name: value for m in manifests for name, value in (m["config"].get(entry) or {}).items()}:
            config[entry] = together
    known: dict[tuple[Any, ...], Mapping[str, Any]] = {}  # for what the configuration alone does not tell
    for part in parts:
        for point in part.manifest["points"]:
            known.setdefault(part.values(point, paths), point)
    points = []
    for values in itertools.product(*axes.values()):
        overrides = dict(zip(paths, itertools.chain(*values)))
        point = {"id": name_of({p: typed(p, v) for p, v in overrides.items()}), "overrides": plain(overrides)}
        there = known.get(tuple(overrides.values()), {})
        points.append(point | {key: there[key] for key in ("numbers", "program") if key in there})
    return {
        "schema": STUDY_SCHEMA,
        **{name: first.get(name) for name in ("name", "title")},
        "status": "running",
        "config": config,
        "points": points,
        "seeds": list(range(seeds[0], seeds[-1] + 1)),
        "cite": united(manifest.get("cite") or {} for manifest in manifests),
        "pretrained": list(dict.fromkeys(line for manifest in manifests for line in manifest.get("pretrained") or ())),
    }
