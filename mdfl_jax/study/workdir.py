"""The workdir of a study: what its config.json says, whose folder it is, which study it holds, what may be removed."""

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.config.points import Point, program_key, to_cite
from mdfl_jax.config.sections import effective, flat
from mdfl_jax.core.errors import UserError
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.storage.array_files import SUFFIX
from mdfl_jax.storage.disk import attempt, is_part, plain
from mdfl_jax.storage.study_files import (
    CONFIG,
    FIGURES,
    LOCK,
    LOGGERS,
    MODELS,
    NO_LINKS,
    RUN,
    RUNS,
    STATE_SUFFIX,
    STREETS,
    STUDY_SCHEMA,
    TABLES,
    VIEWS,
    WORKERS,
    read_config,
    restricted,
    run_files,
    runs_in,
    written_files,
)
from mdfl_jax.study.identity import GROWS, Comparison, compare, digest, not_in_runs, without_rounds
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

    If only some runs of a study are to be done, it is that of a part (`mdfl_jax.storage.study_files.restricted`).

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
        "cite": to_cite(study.points),
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


_OURS = {LOCK, WORKERS, RUNS, MODELS, LOGGERS, STREETS}
"""What may be in a folder without a study: files of runs, which a command takes over if they are of its study."""
_MADE = {*VIEWS, TABLES, FIGURES, "report.html"}
"""What is made of records, and may thus lie beside them."""
_SHARD = re.compile(r"shard-\d+-of-\d+")


def check_place(workdir: Path) -> None:
    """Check that a directory can be created, read and written.

    Raises:
      UserError: If it cannot.
    """
    if str(workdir).startswith("-"):  # --workdir has no value, so this is the next flag
        raise UserError(f"--workdir={workdir}: a value is missing")
    ancestor = workdir
    try:
        while not ancestor.exists() and not ancestor.is_symlink() and ancestor != ancestor.parent:
            ancestor = ancestor.parent
    except OSError as error:  # a name that is too long
        raise UserError(f"--workdir={workdir}: {error.strerror or error}") from error
    if not ancestor.is_dir():
        raise UserError(f"--workdir={workdir}: {ancestor} is not a directory")
    if not os.access(ancestor, os.R_OK | os.W_OK | os.X_OK):
        raise UserError(f"--workdir={workdir}: {ancestor} cannot be read and written")


class WorkdirContent(NamedTuple):
    """What a workdir holds, in view of a wanted study.

    Attributes:
      manifest: The content of its config.json; None if it holds no study, or one that is to be overwritten.
      compared: How the study there differs from the wanted one.
    """

    manifest: dict[str, Any] | None = None
    compared: Comparison | None = None


def inspect_workdir(
    workdir: Path, wanted: Mapping[str, Any], overwrite: bool = False, alive: bool | None = None
) -> WorkdirContent:
    """Return what a workdir holds, without writing anything.

    Args:
      workdir: The directory, which need not exist.
      wanted: The content of config.json of the wanted study.
      overwrite: Whether a study in the directory is to be removed.
      alive: Whether other processes compute its runs; None: whether a worker has a file there.

    Raises:
      UserError: If the directory holds something else, or cannot be written.
    """
    check_place(workdir)
    try:
        names = {path.name for path in workdir.iterdir() if not is_part(path)} if workdir.exists() else set()
    except OSError as error:
        raise UserError(f"--workdir={workdir}: {error.strerror or error}") from error
    if link := next((name for name in NO_LINKS if (workdir / name).is_symlink()), ""):
        raise UserError(f"--workdir={workdir}: {link} is a link, and no file is written through it; remove the link")
    if CONFIG not in names:
        ours = _OURS | _MADE if any(run_files(workdir)) else _OURS
        if other := sorted(name for name in names - ours if not _SHARD.fullmatch(name)):
            raise UserError(
                f"--workdir={workdir}: it holds files of something else ({other[0]}); choose another folder"
            )
        known = {without_rounds(run) for _, _, run in runs_in(wanted)}
        foreign = next((run for run, _ in run_files(workdir) if without_rounds(run) not in known), "")
        if foreign and not overwrite:
            raise UserError(f"--workdir={workdir}: it holds runs of another study ({foreign}); choose another folder")
        return WorkdirContent()
    try:
        held = read_config(workdir)
    except UserError as error:
        if not _is_of_a_study(workdir):
            said = f"--workdir={workdir}: it holds files of something else ({CONFIG}); choose another folder"
            raise UserError(said) from error
        if not overwrite:
            raise
    if overwrite:
        return WorkdirContent()
    alive = any((workdir / WORKERS).glob("*.json")) if alive is None else alive
    begun = None if alive else _names(workdir)
    compared = compare(held, wanted, begun, {run for run, _ in run_files(workdir)})
    if compared.fields:
        changed = compared.fields
        if not changed.endswith("has begun"):
            changed = f"it holds another study ({held.get('name')}): {changed}"
        raise UserError(f"--workdir={workdir}: {changed}; choose another folder, or add --overwrite")
    return WorkdirContent(held, compared)


def _names(workdir: Path) -> set[str]:
    """Return the names of the runs of which anything is there: a record or a state."""
    files = (workdir / RUNS).glob("*" + SUFFIX)
    names = {path.name.removesuffix(STATE_SUFFIX).removesuffix(SUFFIX) for path in files}
    return {name for name in names if RUN.fullmatch(name)}


def _is_of_a_study(workdir: Path) -> bool:
    """Tell whether a config.json that cannot be read is that of a study: damaged, or of an earlier version."""
    try:
        content = json.loads((workdir / CONFIG).read_text())
        is_earlier = content.get("schema") == 1 and {"config", "points"} <= content.keys()
    except (OSError, ValueError, AttributeError, RecursionError):
        is_earlier = False
    return is_earlier or any(run_files(workdir))


def clear(workdir: Path) -> None:
    """Remove the files that a study has written to a workdir, and no others. The caller has locked the workdir.

    Raises:
      UserError: If they cannot be removed.
    """
    try:
        listed = read_config(workdir).get("files") or ()
    except UserError:  # damaged, or of another version
        listed = ()
    for path in list(written_files(workdir, [str(name) for name in listed])):
        attempt(path, partial(path.unlink, missing_ok=True))
        for folder in path.parents:
            if folder == workdir:
                break
            with contextlib.suppress(OSError):  # it holds other files
                folder.rmdir()
