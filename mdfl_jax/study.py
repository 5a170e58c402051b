"""Runs studies from Python: ``run`` does the same as the command `launch.sweep`, and ``Results`` holds the results."""

import json
import os
import runpy
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from ml_collections import ConfigDict

from mdfl_jax.errors import UserError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

Config: TypeAlias = ConfigDict | Mapping[str, Any] | str | Path


@dataclass(frozen=True)
class Results:
    """The results of a finished study, read from its files.

    Attributes:
      config: the resolved configuration.
      summary: the content of summary.json. For each sweep point it has a dictionary with means over the seeds, 95 %
        intervals and paired differences.
      lines: the content of metrics.jsonl, one dictionary for each evaluation of each run.
      arrays: the arrays of history.npz by name: 'rounds' [E], and for the p-th sweep point 'p/accuracy' [S, E, N] and
        so on (docs/outputs.md).
      workdir: the folder of the study; None if it was a temporary one.
    """

    config: dict[str, Any]
    summary: dict[str, Any]
    lines: list[dict[str, Any]]
    arrays: dict[str, np.ndarray]
    workdir: Path | None

    @classmethod
    def load(cls, workdir: str | Path) -> "Results":
        """Reads the results of a finished study.

        Args:
          workdir: the folder of the study.

        Raises:
          UserError: if the folder holds no finished study, or if a file cannot be read.
        """
        folder = Path(workdir)
        try:
            manifest = json.loads((folder / "config.json").read_text())
            if manifest["status"] != "finished":
                raise UserError(f"{folder}: the study there is not finished")
            summary = json.loads((folder / "summary.json").read_text())
            lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            with np.load(folder / "history.npz") as history:
                arrays = {name: history[name] for name in history.files}
        except OSError as error:
            raise UserError(f"{folder}: {error.filename or 'a file'} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, zipfile.BadZipFile) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(f"{folder}: it holds no study that can be read: {error}") from None
        return cls(manifest["config"], summary, lines, arrays, folder)

    @property
    def points(self) -> list[str]:
        """The names of the sweep points, in order."""
        return [point["id"] for point in self.summary["points"]]

    def array(self, metric: str, point: int | str = 0) -> np.ndarray:
        """Returns the values of a metric of one sweep point, over seeds and evaluations.

        Args:
          metric: the name in history.npz, for example 'accuracy', [S, E, N], or 'mean_model_accuracy', [S, E].
          point: the index or the name of the sweep point.

        Raises:
          UserError: for an unknown name of a sweep point or metric; the message lists the known names.
        """
        if isinstance(point, str) and point not in self.points:
            raise UserError(unknown_name("point", point, self.points))
        index = self.points.index(point) if isinstance(point, str) else range(len(self.points))[point]
        if f"{index}/{metric}" not in self.arrays:
            known = [name.partition("/")[2] for name in self.arrays if name.startswith(f"{index}/")]
            raise UserError(unknown_name("metric", metric, known))
        return self.arrays[f"{index}/{metric}"]

    def to_dataframe(self) -> "pd.DataFrame":
        """Returns a table with one row for each sweep point, seed and evaluated round, and the means over clients."""
        import pandas as pd

        return pd.DataFrame(self.lines)


def as_config(config: Config) -> ConfigDict:
    """Converts the argument ``config`` of `run` to a ConfigDict.

    Raises:
      UserError: for a missing file, a file without a function get_config, an unknown key or a wrong value.
    """
    from mdfl_jax.experiments.config.resolve import check_value, default_config

    if isinstance(config, ConfigDict):
        return config
    if isinstance(config, str | Path):
        path, _, argument = str(config).partition(":")
        if not os.path.isfile(path):
            raise UserError(f"config {path!r}: there is no such file")
        sys.path.insert(0, os.getcwd())  # as python -m does
        try:
            made = runpy.run_path(path)
        finally:
            sys.path.remove(os.getcwd())
        if "get_config" not in made:
            raise UserError(f"config {path!r}: it has no function get_config")
        return made["get_config"](*filter(None, [argument]))
    found = default_config()
    for path, value in _flat(config):
        value = check_value(path, value)
        *sections, name = path.split(".")
        (found[sections[0]] if sections else found)[name] = value
    return found


def _flat(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Returns (dotted path, value) for each field of a nested dictionary; its keys may be dotted paths already."""
    pairs: list[tuple[str, Any]] = []
    for name, value in tree.items():
        key = str(name)
        pairs += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(prefix + key, value)]
    return pairs


def run(config: Config, workdir: str | Path | None = None, overwrite: bool = False) -> Results:
    """Runs a study on all CPU cores or accelerators, as the command `launch.sweep` does.

    Args:
      config: a configuration made from `mdfl_jax.experiments.default_config`; or a dictionary of the values that differ
        from the defaults ({"rounds": 100, "network": {"mobility": "dcm"}} or {"network.mobility": "dcm"}); or the path
        of a config file.
      workdir: the folder for the results. If it holds an unfinished study, that study is continued; if it holds a
        finished one, its results are read. None: a temporary folder.
      overwrite: whether to replace an earlier study in the workdir.

    Returns:
      The results, which equal those of the command with the same configuration.

    Raises:
      UserError: if anything is wrong with the configuration or the folder.

    >>> import mdfl_jax
    >>> results = mdfl_jax.run({"rounds": 4, "eval_every": 2, "seeds": 1, "model.name": "linear"})
    >>> results.array("accuracy").shape
    (1, 3, 20)
    """
    from mdfl_jax import target

    target.use_all_cores()
    from mdfl_jax.experiments import make_study
    from mdfl_jax.experiments.run.resume import run_or_resume

    study = make_study(as_config(config))
    if workdir is not None:
        run_or_resume(study, Path(workdir), overwrite)
        return Results.load(workdir)
    with tempfile.TemporaryDirectory() as folder:
        run_or_resume(study, Path(folder), overwrite)
        found = Results.load(folder)
    return Results(found.config, found.summary, found.lines, found.arrays, None)
