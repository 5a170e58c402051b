"""Reads the workdir of a study, finished or not, and checks it against schema 1."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.outcomes import seeds_of
from mdfl_jax.metrics import AXIS, CURVE
from mdfl_jax.report import partial
from mdfl_jax.report.curve import GROUP_KEYS, ROUNDS, Curve, make_curves
from mdfl_jax.report.missing import extension_told, missing_told
from mdfl_jax.report.run import Run, axes_of, kept
from mdfl_jax.results.results import declared
from mdfl_jax.storage.checksums import check_texts
from mdfl_jax.storage.study_files import check_whole, read_json, read_results, read_streets, require

__all__ = ["GROUP_KEYS", "ROUNDS", "Curve", "Run", "axes_of", "chosen", "declared", "kept", "make_run", "read_workdir"]

_FIRST_SEED_ARRAYS = {"label_counts": 3, "is_mobile": 2, "position": 4}  # array of history.npz -> its number of axes


def read_workdir(workdir: Path, x_axis: str = "") -> Run:
    """Read config.json, summary.json, metrics.jsonl and history.npz of a workdir.

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
    manifest, streets = read_json(workdir / "config.json", ("config", "seeds")), read_streets(workdir)
    if manifest.get("status") == "running":
        state = partial.read(workdir, manifest)
        remarks = (*state.remarks, *missing_told(manifest))
        return make_run(workdir, manifest, state.summary, state.lines, {}, streets, x_axis, remarks)
    summary, lines, arrays = read_results(workdir)
    if not summary["points"]:
        raise UserError(f"{workdir / 'summary.json'}: has no points")
    for point in summary["points"]:
        require(point, ("id", "overrides", "final_accuracy"), workdir / "summary.json")
    _check_alike(workdir, manifest, summary, arrays)
    check_texts(manifest, workdir)
    remarks = (*missing_told(manifest), *extension_told(workdir))
    return make_run(workdir, manifest, summary, lines, arrays, streets, x_axis, remarks)


def _check_alike(
    workdir: Path, manifest: Mapping[str, Any], summary: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Check that config.json, summary.json and history.npz have the same sweep points and seeds."""
    ids = [point["id"] for point in summary["points"]]
    if [point["id"] for point in manifest.get("points", summary["points"])] != ids:
        raise UserError(f"{workdir}: summary.json and config.json have different sweep points")
    for p, point in enumerate(summary["points"]):
        count, mobile = len(point.get("seeds") or seeds_of(manifest, p)), arrays.get(f"{p}/is_mobile")
        if mobile is not None and len(mobile) != count:
            raise UserError(f"{workdir / 'history.npz'}: {p}/is_mobile is not of the {count} seeds of config.json")


def make_run(
    workdir: Path,
    manifest: dict[str, Any],
    summary: dict[str, Any],
    lines: Sequence[Mapping[str, Any]],
    arrays: Mapping[str, np.ndarray],
    streets: np.ndarray,
    x_axis: str = "",
    remarks: tuple[str, ...] = (),
) -> Run:
    """Make a `Run` of what the files of a study hold.

    Args:
      workdir: the folder for the report.
      manifest, summary, lines: the content of config.json, summary.json and metrics.jsonl.
      arrays: the content of history.npz.
      streets: [K, 4] the streets of the map; [0, 4] for none.
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
    whole, first, places = {**summary, "points": points}, first_seed(arrays, workdir), tuple(range(len(ids)))
    run = Run(workdir, manifest, whole, curves, first, x_axis, lines, arrays, places, remarks, streets, points)
    return run.only([ids.index(point["id"]) for point in chosen(whole)["points"]])


def chosen(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary with only the best sweep point of each group (`mdfl_jax.results.step_sizes`).

    If no best points were selected, all sweep points are kept.
    """
    best = {entry["id"] for entry in summary.get("selected") or ()} - {None}
    points = [p for p in summary["points"] if p["id"] in best] if best else summary["points"]
    return {**summary, "points": points}


def first_seed(arrays: Mapping[str, np.ndarray], workdir: Path) -> dict[str, np.ndarray]:
    """Return label counts, mobile masks and positions of the first seed; the report needs no other arrays.

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
