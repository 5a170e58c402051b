"""Reads the workdir of a study, finished or not, and checks it against schema 1."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.metrics import AXIS, BUILT_IN, CURVE
from mdfl_jax.metrics.declare import Shown
from mdfl_jax.report import partial
from mdfl_jax.report.curve import GROUP_KEYS, ROUNDS, Curve, make_curves
from mdfl_jax.report.missing import extension_told, missing_told
from mdfl_jax.report.settings import Axis, sweep_axes, value_of
from mdfl_jax.study_files import History, read_json, read_lines, require
from mdfl_jax.workdir_names import check_whole

__all__ = ["GROUP_KEYS", "ROUNDS", "Curve", "Run", "axes_of", "chosen", "declared", "make_run", "read_workdir"]

_FIRST_SEED_ARRAYS = {"label_counts": 3, "is_mobile": 2, "position": 4}  # array of history.npz -> its number of axes


@dataclass(frozen=True)
class Run:
    """The content of one workdir that the report needs, or of several that are compared (`mdfl_jax.report.compare`)."""

    workdir: Path
    manifest: dict[str, Any]  # config.json
    summary: dict[str, Any]  # summary.json
    curves: dict[str, Curve]  # point id -> curve
    first_seed: dict[str, np.ndarray]  # "0/position" [R+1, N, 2], "0/label_counts" [N, C], "0/is_mobile" [N], ...
    x_axis: str = ROUNDS  # the x axis of the accuracy curves: "rounds" or the name of a metric
    lines: Sequence[Mapping[str, Any]] = ()  # metrics.jsonl, with the lines of all sweep points
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)  # history.npz, each read when asked for
    places: tuple[int, ...] = ()  # the index in history.npz of each sweep point
    remarks: tuple[str, ...] = ()  # sentences at the top of the page, such as how far an unfinished study is
    studies: tuple["Run", ...] = ()  # the studies of a comparison; none if this is one study
    parts: tuple[tuple[int, int], ...] = ()  # of a comparison: the study and its sweep point, for each sweep point

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
        """The settings that differ between the sweep points, except the setting whose best value ``select`` chose."""
        chosen_by = self.config.get("select") if self.summary.get("selected") else None
        return [axis for axis in sweep_axes(self.points, self.config) if axis.path != chosen_by]

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
        if self.parts and path not in self.points[point]["overrides"]:
            study, of_study = self.parts[point]
            return self.studies[study].value(of_study, path)
        found, name = value_of(self.points[point], path, self.config), self.points[point]["id"]
        if found is not None:
            return found
        numbers: dict[str, dict[str, Any]] = {of["id"]: of.get("numbers", {}) for of in self.manifest.get("points", ())}
        return numbers.get(name, {}).get(path)

    def seeds(self, point: int) -> tuple[int, ...]:
        """Returns the seeds of a sweep point, in the order of the first axis of its arrays."""
        found = self.curves[self.points[point]["id"]].seeds
        written = self.points[point].get("seeds") or self.manifest["seeds"]
        return tuple(written) if sorted(written) == sorted(found) else found

    def end(self, point: int) -> int:
        """Returns the index of the evaluation that a sweep point's results are of: the summary's round, or the last."""
        found = np.flatnonzero(self.curves[self.points[point]["id"]].rounds == self.summary.get("round"))
        return int(found[0]) if len(found) else -1

    def array(self, point: int, name: str) -> np.ndarray | None:
        """Returns an array of history.npz for a sweep point and its first seed, or None if it was not recorded."""
        return self.first_seed.get(f"{point}/{name}")

    def only(self, points: Sequence[int]) -> "Run":
        """Returns the same run with some of its sweep points, given by index."""
        new = {str(p): str(i) for i, p in enumerate(points)}
        return dataclasses.replace(
            self,
            summary={**self.summary, "points": [self.points[p] for p in points]},
            curves={self.points[p]["id"]: self.curves[self.points[p]["id"]] for p in points},
            first_seed={
                f"{new[p]}/{name}": array
                for p, _, name, array in ((*key.partition("/"), array) for key, array in self.first_seed.items())
                if p in new
            },
            places=tuple(self.places[p] for p in points) if self.places else (),
            parts=tuple(self.parts[p] for p in points) if self.parts else (),
        )

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

    Of an unfinished study config.json and metrics.jsonl are enough. Its results are those at a round that enough of its
    runs have reached (`mdfl_jax.report.partial`), and the run's remarks say so.

    Args:
      workdir: the folder of a study.
      x_axis: the x axis of the accuracy curves: "rounds" or a metric declared to be an axis; empty: the axis that the
        study's config names.

    Raises:
      UserError: if the folder holds no study, if a file is missing, unreadable or of another schema (the message names
        the file), if new files are just taking the place of the earlier ones, if the files do not fit together, if
        there is no such axis, or if an unfinished study has no evaluation yet.
    """
    if not workdir.is_dir():
        why = "it is a file, not the folder of a study" if workdir.exists() else "no such directory"
        raise UserError(f"{workdir}: {why}")
    if not (workdir / "config.json").is_file():
        raise UserError(f"{workdir}: it holds no study: there is no config.json")
    check_whole(workdir)
    manifest = read_json(workdir / "config.json", ("config", "seeds"))
    if manifest.get("status") == "running":
        state = partial.read(workdir, manifest)
        remarks = (*state.remarks, *missing_told(manifest))
        return make_run(workdir, manifest, state.summary, state.lines, {}, x_axis, remarks)
    summary = read_json(workdir / "summary.json", ("points", "baseline"))
    if not summary["points"]:
        raise UserError(f"{workdir / 'summary.json'}: has no points")
    for point in summary["points"]:
        require(point, ("id", "overrides", "final_accuracy"), workdir / "summary.json")
    lines, arrays = read_lines(workdir / "metrics.jsonl"), History(workdir / "history.npz")
    _check_alike(workdir, manifest, summary, arrays)
    remarks = (*missing_told(manifest), *extension_told(workdir))
    return make_run(workdir, manifest, summary, lines, arrays, x_axis, remarks)


def _check_alike(
    workdir: Path, manifest: Mapping[str, Any], summary: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Checks that config.json, summary.json and history.npz have the same sweep points and seeds."""
    ids = [point["id"] for point in summary["points"]]
    if [point["id"] for point in manifest.get("points", summary["points"])] != ids:
        raise UserError(f"{workdir}: summary.json and config.json have different sweep points")
    for p, point in enumerate(summary["points"]):
        count, mobile = len(point.get("seeds") or manifest["seeds"]), arrays.get(f"{p}/is_mobile")
        if mobile is not None and len(mobile) != count:
            raise UserError(f"{workdir / 'history.npz'}: {p}/is_mobile is not of the {count} seeds of config.json")


def make_run(
    workdir: Path,
    manifest: dict[str, Any],
    summary: dict[str, Any],
    lines: Sequence[Mapping[str, Any]],
    arrays: Mapping[str, np.ndarray],
    x_axis: str = "",
    remarks: tuple[str, ...] = (),
) -> Run:
    """Makes a `Run` of what the files of a study hold.

    Args:
      workdir: the folder for the report.
      manifest, summary, lines: the content of config.json, summary.json and metrics.jsonl.
      arrays: the content of history.npz.
      x_axis: as in `read_workdir`.
      remarks: sentences for the top of the page.

    Raises:
      UserError: if a line lacks an entry, or if there is no such axis.
    """
    ids = [point["id"] for point in summary["points"]]
    judged = partial.judged_key(manifest["config"])
    x_axis = x_axis or manifest["config"].get("x_axis") or ROUNDS
    if x_axis not in (ROUNDS, *axes_of(summary)):
        raise UserError(f"the x axis is {x_axis!r}; this run has {', '.join([ROUNDS, *axes_of(summary)])}")
    shown = {metric.key: metric.name for metric in declared(summary) if {AXIS, CURVE} & set(metric.where)}
    curves = make_curves(lines, workdir / "metrics.jsonl", ids, judged, shown)
    points = [{"seeds": list(manifest["seeds"]), **point} for point in summary["points"]]
    best = chosen({**summary, "points": points})
    at = {str(ids.index(point["id"])): str(p) for p, point in enumerate(best["points"])}
    first = first_seed(arrays, workdir)
    kept = {f"{at[p]}/{name}": first[f"{p}/{name}"] for p, _, name in (k.partition("/") for k in first) if p in at}
    of_best = {point["id"]: curves[point["id"]] for point in best["points"]}
    return Run(workdir, manifest, best, of_best, kept, x_axis, lines, arrays, tuple(map(int, at)), remarks)


def chosen(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the summary with only the best sweep point of each group (`mdfl_jax.experiments.results.step_sizes`).

    If no best points were selected, all sweep points are kept.
    """
    best = {entry["id"] for entry in summary.get("selected") or ()} - {None}
    points = [p for p in summary["points"] if p["id"] in best] if best else summary["points"]
    return {**summary, "points": points}


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
