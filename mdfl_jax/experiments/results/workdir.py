"""The workdir of a study: which study it holds, what may be replaced, and what an unfinished run needs."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.config.resolve import default_config
from mdfl_jax.experiments.config.use import files_of
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
    "models",
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
    if found := _differs(held, config):
        raise UserError(f"--workdir={workdir}: {found}; choose another, or add --overwrite")
    return held.get("status") == "running" and (workdir / "checkpoints").is_dir()


def is_finished(workdir: Path, config: dict[str, Any]) -> bool:
    """Whether a workdir holds a finished run of this same study."""
    held = _holds(workdir) or {}
    return held.get("status") == "finished" and not _differs(held, config)


def _differs(held: dict[str, Any], config: dict[str, Any]) -> str:
    """Says in words why a config.json is of another study than a configuration; '' if it is of the same one."""
    here, there = _comparable(plain(config)), _comparable(held.get("config") or {})
    now, then = here.pop("inputs", {}), there.pop("inputs", None)  # an older version wrote no digests
    if found := difference(here, there):
        return f"it holds another study ({held.get('name')}): {found}"
    changed = [name for name, digest in now.items() if then is not None and then.get(name) != digest]
    return f"{changed[0]} has changed since the study there has begun" if changed else ""


def _comparable(config: dict[str, Any]) -> dict[str, Any]:
    """Returns a configuration in which fields that an older version did not know have their defaults.

    The user's files are named without folders, since their digests are compared. Code without a digest is left out.
    """
    names = [Path(path).name for path in files_of(str(config.get("use") or ""))]
    digests = {Path(path).name: digest for path, digest in (config.get("own_files") or {}).items() if digest}
    found = _completed(config, plain(default_config().to_dict()))
    return found | {"use": ",".join(names), "own_files": digests}


def _completed(tree: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Returns a tree with the defaults of the keys that it lacks."""
    found = dict(tree)
    for name, value in defaults.items():
        if isinstance(value, dict) and isinstance(tree.get(name, {}), dict):
            found[name] = _completed(tree.get(name, {}), value)
        else:
            found.setdefault(name, value)
    return found


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
