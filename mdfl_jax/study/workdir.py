"""The workdir of a study: which study it holds, what may be replaced, and what an unfinished run needs."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.checksums import check_manifest
from mdfl_jax.storage.disk import PART
from mdfl_jax.storage.study_files import CHECKPOINTS, LOCK, WRITTEN
from mdfl_jax.study.identity import Comparison, compare


def read_manifest(workdir: Path) -> dict[str, Any] | None:
    """Return the config.json of a workdir, or None if it cannot be read."""
    try:
        found = json.loads((workdir / "config.json").read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


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


def _is_free(workdir: Path) -> bool:
    """Whether a directory is absent or holds nothing but the lock, or a first file that was never complete."""
    check_place(workdir)
    return not workdir.exists() or not {path.name for path in workdir.iterdir()} - {LOCK, "config.json" + PART}


class WorkdirContent(NamedTuple):
    """What a workdir holds, in view of a wanted study.

    Attributes:
      manifest: The content of its config.json; None if the workdir is free, or may be overwritten.
      compared: How the study there differs from the wanted one.
      goes_on: Whether it is unfinished, with a state from which it can go on.
    """

    manifest: dict[str, Any] | None = None
    compared: Comparison | None = None
    goes_on: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether the study there is finished."""
        return self.manifest is not None and self.manifest.get("status") == "finished"

    @property
    def grows(self) -> bool:
        """Whether the wanted study is the one there with further runs or rounds."""
        return self.compared is not None and self.compared.grows


def inspect_workdir(
    workdir: Path, wanted: Mapping[str, Any], overwrite: bool = False, extend: bool = False
) -> WorkdirContent:
    """Return what a workdir holds, without writing anything.

    Args:
      workdir: The directory, which need not exist.
      wanted: The content of config.json of the wanted study.
      overwrite: Whether the content of the directory may be replaced. It then counts as free.
      extend: Whether the study there may be extended to the wanted one.

    Raises:
      UserError: If the directory holds something else, or cannot be written.
    """
    try:
        if _is_free(workdir) or overwrite:
            return WorkdirContent()
    except OSError as error:
        raise UserError(f"--workdir={workdir}: {error.strerror or error}") from error
    held = read_manifest(workdir)
    if held is None or "config" not in held:
        raise UserError(f"--workdir={workdir}: it holds files of something else; choose another, or add --overwrite")
    check_manifest(held, workdir)
    if held.get("status", "finished") not in ("finished", "running"):
        raise UserError(f"--workdir={workdir}: config.json is damaged: its status is {held['status']!r}")
    compared = compare(held, wanted)
    if compared.is_same or (extend and compared.grows):
        return WorkdirContent(held, compared, held.get("status") == "running" and (workdir / CHECKPOINTS).is_dir())
    said = str(compared)
    changed = said if said.endswith("has begun") else f"it holds another study ({held.get('name')}): {said}"
    ways = "choose another, add --extend to run only what is missing" if compared.grows else "choose another"
    if extend:
        ways = f"--extend only adds runs and rounds; {ways}"
    raise UserError(f"--workdir={workdir}: {changed}; {ways}, or add --overwrite")


def is_finished(workdir: Path, wanted: Mapping[str, Any]) -> bool:
    """Tell whether a workdir holds a finished run of a study, with all its runs and rounds.

    Args:
      workdir: The directory, which need not exist.
      wanted: The content of config.json of the study.
    """
    held = read_manifest(workdir)
    return bool(held and held.get("status") == "finished" and compare(held, wanted).is_same)


def batch_sizes(workdir: Path) -> list[int]:
    """Return the batch sizes of the unfinished run in a workdir. A resumed run must keep them, whatever fits now."""
    return (read_manifest(workdir) or {})["runs_per_batch"]


def prepare(workdir: Path, resume: bool) -> None:
    """Create the workdir. Unless a run is resumed, remove the files of an earlier study, and nothing else.

    Raises:
      UserError: If the directory cannot be written.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        for name in () if resume else WRITTEN:
            path = workdir / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"--workdir={workdir}: {error.strerror or error}") from error
