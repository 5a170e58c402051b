"""The workdir of a study: which study it holds, what may be replaced, and what an unfinished run needs."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.results.files import plain
from mdfl_jax.experiments.results.provenance import difference

WRITTEN = (
    "config.json",
    "metrics.jsonl",
    "history.npz",
    "summary.json",
    "tables",
    "figures",
    "report.html",
    "checkpoints",
)


def _holds(workdir: Path) -> dict[str, Any] | None:
    """Returns the config.json of a workdir, or None if it cannot be read."""
    try:
        found = json.loads((workdir / "config.json").read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _is_free(workdir: Path) -> bool:
    """Whether a directory is absent or empty. It must be possible to create it and write to it."""
    if str(workdir).startswith("-"):  # --workdir has no value, so this is the next flag
        raise UserError(f"--workdir={workdir}: a value is missing")
    ancestor = workdir
    while not ancestor.exists() and not ancestor.is_symlink() and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    if not ancestor.is_dir():
        raise UserError(f"--workdir={workdir}: {ancestor} is not a directory")
    if not os.access(ancestor, os.R_OK | os.W_OK | os.X_OK):
        raise UserError(f"--workdir={workdir}: {ancestor} cannot be read and written")
    return ancestor != workdir or not any(workdir.iterdir())


def check(workdir: Path, config: dict[str, Any], overwrite: bool) -> bool:
    """Checks that a study may be written to a workdir, without writing anything.

    Args:
      workdir: The directory, which need not exist.
      config: The resolved configuration of the study.
      overwrite: Whether the content of the directory may be replaced.

    Returns:
      Whether the directory holds an unfinished run of this same study, to be resumed; False with ``overwrite``.

    Raises:
      UserError: If the directory holds something else, or cannot be written.
    """
    try:
        if _is_free(workdir) or overwrite:
            return False
    except OSError as error:
        raise UserError(f"--workdir={workdir}: {error.strerror or error}") from error
    held = _holds(workdir)
    if held is None:
        raise UserError(f"--workdir={workdir}: it holds files of something else; choose another, or add --overwrite")
    if held.get("config") != plain(config):
        differs = difference(plain(config), held.get("config"))
        raise UserError(
            f"--workdir={workdir}: it holds another study ({held.get('name')}): {differs}; "
            "choose another, or add --overwrite"
        )
    return held.get("status") == "running" and (workdir / "checkpoints").is_dir()


def is_finished(workdir: Path, config: dict[str, Any]) -> bool:
    """Whether a workdir holds a finished run of this same study."""
    held = _holds(workdir) or {}
    return held.get("status") == "finished" and held.get("config") == plain(config)


def batch_sizes(workdir: Path) -> list[int]:
    """Returns the batch sizes of the unfinished run in a workdir. A resumed run must keep them, whatever fits now."""
    return (_holds(workdir) or {})["runs_per_batch"]


def prepare(workdir: Path, resume: bool) -> None:
    """Creates the workdir. Unless a run is resumed, removes the files of an earlier study, and nothing else.

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
