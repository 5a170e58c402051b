"""Runs the studies of the papers' items, or reads those that are finished, and takes statistics from them."""

import json
import math
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from mdfl_jax.config.presets import cuts
from mdfl_jax.core.outcomes import interval
from mdfl_jax.results.results import Results

Statistic = Mapping[str, Any]  # 'mean' and 'ci95', the half-width of the 95 % interval over seeds, as in summary.json
Setting = dict[str, Any]  # the last parts of swept fields, with values that choose a sweep point


def _same(value: Any, wanted: Any) -> bool:
    try:
        return math.isclose(float(value), float(wanted))
    except (TypeError, ValueError):
        return str(value) == str(wanted)


class Study:
    """A finished study: statistics over seeds, by the values of its swept fields."""

    def __init__(self, workdir: Path):
        self.workdir = workdir
        self.points: list[dict[str, Any]] = json.loads((workdir / "summary.json").read_text())["points"]

    def point(self, **settings: Any) -> dict[str, Any]:
        """Return the one sweep point with these values of the swept fields, which are named by their last parts.

        >>> study.point(mobility="dcm", alpha=0.05)  # doctest: +SKIP
        """
        found = self.matching(**settings)
        if len(found) != 1:
            raise LookupError(f"{self.workdir}: {len(found)} sweep points have {settings}")
        return found[0]

    def matching(self, **settings: Any) -> list[dict[str, Any]]:
        """Return all sweep points with these values."""
        return [p for p in self.points if _matches(setting_of(p), settings)]

    def per_seed(self, key: str = "final_accuracy", **settings: Any) -> np.ndarray:
        """Return a value of summary.json for each seed, [S]; NaN where it is unknown."""
        found = self.point(**settings)[key]
        values = found["per_seed"] if isinstance(found, dict) else found
        return np.array([math.nan if v is None else float(v) for v in values])

    def mean(self, key: str = "final_accuracy", scale: float = 100, **settings: Any) -> Statistic:
        """Return the mean over the seeds with its interval, by default in per cent."""
        return interval(scale * self.per_seed(key, **settings))

    def gain(self, better: Setting, than: Setting, key: str = "final_accuracy", scale: float = 100) -> Statistic:
        """Return the paired difference between two sweep points over the seeds, by default in points."""
        return interval(scale * (self.per_seed(key, **better) - self.per_seed(key, **than)))

    def results(self) -> Results:
        """Return everything that the study measured."""
        return Results.load(self.workdir)


def setting_of(point: Mapping[str, Any]) -> Setting:
    """Return the values of the swept fields of a sweep point, by the last parts of their names."""
    return {path.split(".")[-1]: value for path, value in point["overrides"].items()}


def _matches(named: Setting, settings: Setting) -> bool:
    return all(name in named and _same(named[name], wanted) for name, wanted in settings.items())


def mean_of(statistics: list[np.ndarray]) -> Statistic:
    """Return the interval over the seeds of the mean of several values per seed, [S] each."""
    return interval(np.mean(statistics, axis=0))


class Studies:
    """The studies of an item at a scale; it notes which ones were used.

    Attributes:
      scale: smoke, small or paper.
      least: the least number of seeds of each study.
      seeds: that of some studies, by their names.
      used: what each study was, for the results file: its name, seeds, runs, rounds, seconds, and what it cuts.
    """

    def __init__(self, scale: str, workdir: Path, least: int = 0, seeds: Mapping[str, int] | None = None):
        self.scale, self.least, self.seeds, self._workdir = scale, least, seeds or {}, workdir
        self.used: dict[str, dict[str, Any]] = {}

    def __call__(self, preset: str) -> Study:
        """Return the study of a preset, as in madfl:t2."""
        stem, _, name = preset.partition(":")
        make = import_module(f"configs.{stem}").get_config
        return self.of(make(f"{name},scale={self.scale}"), make(name))

    def of(self, config: ConfigDict, paper: ConfigDict | None = None) -> Study:
        """Return the study of a configuration; run it first, or go on with it, if it is not finished.

        Args:
          config: the configuration.
          paper: the paper's, if the two differ.
        """
        from mdfl_jax.study import make_study, run_or_resume

        def log(line: str) -> None:
            print(line, file=sys.stderr, flush=True)

        config.seeds = max(config.seeds, self.least, self.seeds.get(config.name, 0))
        made = make_study(config)
        workdir = self._workdir / config.name
        run_or_resume(made, workdir, log=log)
        study = Study(workdir)
        self.used[config.name] = {
            "seeds": config.seeds,
            "runs": len(made.runs),
            "rounds": config.rounds,
            "run_seconds": round(sum(p["run_seconds"] for p in study.points)),
            "cuts": [list(map(str, cut)) for cut in cuts(config, paper)] if paper is not None else [],
        }
        return study
