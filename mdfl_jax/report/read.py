"""Reads the workdir of a finished study and checks it against schema 1."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.metrics import AXIS, BUILT_IN, CURVE
from mdfl_jax.metrics.declare import GROUPS, Shown
from mdfl_jax.report.files import History, read_json, read_lines, require
from mdfl_jax.report.settings import Axis, sweep_axes, value_of

ROUNDS = "rounds"  # the default x axis
GROUP_KEYS = tuple(f"{metric.in_files}_{group}" for metric in BUILT_IN if metric.by_group for group in GROUPS)
_FIRST_SEED_ARRAYS = {"label_counts": 3, "is_mobile": 2, "position": 4}  # array of history.npz -> its number of axes


@dataclass(frozen=True)
class Curve:
    """The accuracy and further metrics of one sweep point against the rounds."""

    rounds: np.ndarray  # [E] evaluated rounds
    accuracy: np.ndarray  # [S, E] mean over clients; NaN where a seed has no value
    groups: dict[str, np.ndarray]  # [S, E] by GROUP_KEYS; NaN for an empty group; keys may be missing
    measured: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # [S, E] by shown metric

    def along(self, x_axis: str) -> np.ndarray:
        """Returns the values along the x axis, [E]: the rounds, or the mean of a metric over the seeds.

        Args:
          x_axis: "rounds" or the name of a metric.

        Raises:
          UserError: if the metric was not recorded.
        """
        if x_axis == ROUNDS:
            return self.rounds
        if x_axis not in self.measured:
            raise UserError(f"the x axis is {x_axis!r}; this run has {', '.join([ROUNDS, *self.measured])}")
        return self.measured[x_axis].mean(axis=0)


@dataclass(frozen=True)
class Run:
    """The content of one workdir that the report needs."""

    workdir: Path
    manifest: dict[str, Any]  # config.json
    summary: dict[str, Any]  # summary.json
    curves: dict[str, Curve]  # point id -> curve
    first_seed: dict[str, np.ndarray]  # "0/position" [R+1, N, 2], "0/label_counts" [N, C], "0/is_mobile" [N], ...
    x_axis: str = ROUNDS  # the x axis of the accuracy curves: "rounds" or the name of a metric
    lines: Sequence[Mapping[str, Any]] = ()  # metrics.jsonl, with the lines of all sweep points
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)  # history.npz, each read when asked for
    places: tuple[int, ...] = ()  # the index in history.npz of each sweep point

    @property
    def points(self) -> list[dict[str, Any]]:
        """The sweep points of summary.json, in order."""
        return self.summary["points"]

    @property
    def config(self) -> dict[str, Any]:
        """The resolved base configuration, without the overrides of the sweep points."""
        return self.manifest["config"]

    @property
    def axes(self) -> list[Axis]:
        """The settings that differ between the sweep points, except the setting whose best value ``select`` chooses."""
        return [axis for axis in sweep_axes(self.points, self.config) if axis.path != self.config.get("select")]

    @property
    def x_title(self) -> str:
        """The label of the x axis."""
        return "round" if self.x_axis == ROUNDS else axes_of(self.summary)[self.x_axis].title

    @property
    def x_scale(self) -> float:
        """The number by which the values along the x axis are divided."""
        return 1.0 if self.x_axis == ROUNDS else axes_of(self.summary)[self.x_axis].scale

    def value(self, point: int, path: str) -> Any:
        """Returns the value of a sweep point for a dotted path of the configuration, or None if it has none."""
        found, name = value_of(self.points[point], path, self.config), self.points[point]["id"]
        if found is not None:
            return found
        numbers: dict[str, dict[str, Any]] = {of["id"]: of.get("numbers", {}) for of in self.manifest.get("points", ())}
        return numbers.get(name, {}).get(path)

    def array(self, point: int, name: str) -> np.ndarray | None:
        """Returns an array of history.npz for a sweep point and its first seed, or None if it was not recorded."""
        return self.first_seed.get(f"{point}/{name}")

    def history(self, point: int, name: str) -> np.ndarray | None:
        """Returns an array [S, ...] of history.npz for a sweep point and all seeds, or None if it was not recorded.

        Raises:
          UserError: if the array cannot be read.
        """
        return self.arrays.get(f"{self.places[point]}/{name}")


def declared(summary: Mapping[str, Any]) -> list[Shown]:
    """Returns the metrics of a study: the built-in ones and its own."""
    return [metric.described for metric in BUILT_IN] + [Shown(**own) for own in summary.get("metrics", ())]


def axes_of(summary: Mapping[str, Any]) -> dict[str, Shown]:
    """Returns the metrics that can be the x axis of a curve, by name."""
    return {metric.name: metric for metric in declared(summary) if AXIS in metric.where}


def read_workdir(workdir: Path, x_axis: str = "") -> Run:
    """Reads config.json, summary.json, metrics.jsonl and history.npz of a workdir.

    Args:
      workdir: the folder of a finished study.
      x_axis: the x axis of the accuracy curves: "rounds" or a metric declared to be an axis; empty: the axis that the
        study's config names.

    Raises:
      UserError: if a file is missing, unreadable or of another schema (the message names the file), or if there is no
        such axis.
    """
    if not workdir.is_dir():
        raise UserError(f"{workdir}: no such directory")
    manifest = read_json(workdir / "config.json", ("config", "seeds"))
    summary = read_json(workdir / "summary.json", ("points", "baseline"))
    if not summary["points"]:
        raise UserError(f"{workdir / 'summary.json'}: has no points")
    for point in summary["points"]:
        require(point, ("id", "overrides", "final_accuracy"), workdir / "summary.json")
    lines = read_lines(workdir / "metrics.jsonl")
    return make_run(workdir, manifest, summary, lines, History(workdir / "history.npz"), x_axis)


def make_run(
    workdir: Path,
    manifest: dict[str, Any],
    summary: dict[str, Any],
    lines: Sequence[Mapping[str, Any]],
    arrays: Mapping[str, np.ndarray],
    x_axis: str = "",
) -> Run:
    """Makes a `Run` of what the files of a study hold.

    Args:
      workdir: the folder for the report.
      manifest, summary, lines: the content of config.json, summary.json and metrics.jsonl.
      arrays: the content of history.npz.
      x_axis: as in `read_workdir`.

    Raises:
      UserError: if a line lacks an entry, or if there is no such axis.
    """
    ids = [point["id"] for point in summary["points"]]
    judged = "mean_model_accuracy" if manifest["config"].get("judged") == "global" else "accuracy"
    x_axis = x_axis or manifest["config"].get("x_axis") or ROUNDS
    if x_axis not in (ROUNDS, *axes_of(summary)):
        raise UserError(f"the x axis is {x_axis!r}; this run has {', '.join([ROUNDS, *axes_of(summary)])}")
    shown = {metric.key: metric.name for metric in declared(summary) if {AXIS, CURVE} & set(metric.where)}
    curves = _curves(lines, workdir / "metrics.jsonl", ids, judged, shown)
    best = chosen(summary)
    at = {str(ids.index(point["id"])): str(p) for p, point in enumerate(best["points"])}
    first = first_seed(arrays, workdir)
    kept = {f"{at[p]}/{name}": first[f"{p}/{name}"] for p, _, name in (k.partition("/") for k in first) if p in at}
    of_best = {point["id"]: curves[point["id"]] for point in best["points"]}
    return Run(workdir, manifest, best, of_best, kept, x_axis, lines, arrays, tuple(map(int, at)))


def chosen(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the summary with only the best sweep point of each group (`mdfl_jax.experiments.results.step_sizes`).

    If no best points were selected, all sweep points are kept.
    """
    best = {entry["id"] for entry in summary.get("selected") or ()} - {None}
    points = [p for p in summary["points"] if p["id"] in best] if best else summary["points"]
    return {**summary, "points": points}


def _curves(
    lines: Sequence[Mapping[str, Any]], path: Path, ids: Sequence[str], judged: str, shown: Mapping[str, str]
) -> dict[str, Curve]:
    """Makes the curves by sweep point. If two lines have the same sweep point, seed and round, the later one is used.

    Args:
      lines: the lines of metrics.jsonl.
      path: the path of metrics.jsonl, for errors.
      ids: the ids of the sweep points.
      judged: the key of the accuracy.
      shown: key -> name for each further metric to read.
    """
    values: dict[str, dict[tuple[int, int], dict[str, Any]]] = {name: {} for name in ids}
    for row in lines:
        require(row, ("point", "seed", "round", judged), path)
        if row["point"] in values:
            kept = {key: row[key] for key in (judged, *GROUP_KEYS, *shown) if key in row}
            values[row["point"]][row["seed"], row["round"]] = kept
    curves = {}
    for name, by_key in values.items():
        if not by_key:
            raise UserError(f"{path}: has no line for the point {name!r} of summary.json")
        seeds, rounds = ({key: i for i, key in enumerate(sorted(keys))} for keys in map(set, zip(*by_key)))
        known = dict.fromkeys(key for kept in by_key.values() for key in kept)
        arrays = {key: np.full((len(seeds), len(rounds)), np.nan) for key in known}
        for (seed, at_round), kept in by_key.items():
            for key, value in kept.items():
                arrays[key][seeds[seed], rounds[at_round]] = np.nan if value is None else value
        measured = {of: arrays[key] for key, of in shown.items() if key in arrays}
        groups = {key: arrays[key] for key in GROUP_KEYS if key in arrays}
        curves[name] = Curve(np.array(list(rounds)), arrays[judged], groups, measured)
    return curves


def first_seed(arrays: Mapping[str, np.ndarray], workdir: Path) -> dict[str, np.ndarray]:
    """Returns label counts, mobile masks and positions of the first seed; the report needs no other arrays.

    Args:
      arrays: the arrays of history.npz.
      workdir: the folder of the study, for errors.

    Raises:
      UserError: if an array has a wrong shape.
    """
    path, found = workdir / "history.npz", {}
    for key in arrays:
        axes = _FIRST_SEED_ARRAYS.get(key.rpartition("/")[2])
        if axes is None:
            continue
        array = arrays[key]
        if array.ndim != axes or not len(array):
            raise UserError(f"{path}: {key} has shape {array.shape}; {axes} axes with a first seed are needed")
        found[key] = np.array(array[0])
    return found
