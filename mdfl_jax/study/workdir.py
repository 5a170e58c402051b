"""The workdir of a study: whose folder it is, which study it holds, and what may be removed."""

import contextlib
import json
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.core.errors import UserError
from mdfl_jax.results.studies import runs_in
from mdfl_jax.storage.array_files import SUFFIX
from mdfl_jax.storage.disk import attempt, is_part
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
    TABLES,
    VIEWS,
    WORKERS,
    read_config,
    run_files,
    written_files,
)
from mdfl_jax.study.identity import Comparison, compare, without_rounds

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
