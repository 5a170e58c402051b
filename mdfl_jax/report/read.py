"""Reads the workdir of a finished run, checked against schema 1, and finds the settings in which its points differ."""

import dataclasses
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.errors import UserError

SCHEMA = 1
X_KEYS = {"messages": "messages", "bits": "bits_sent"}  # x axis -> key of metrics.jsonl, per client
GROUP_KEYS = ("accuracy_mobile", "accuracy_other", "num_neighbours_mobile", "num_neighbours_other")
_FIRST_SEED_ARRAYS = {"label_counts": 3, "is_mobile": 2, "position": 4}  # array of history.npz -> its number of axes


@dataclass(frozen=True)
class Axis:
    """One setting that differs between the points of a sweep."""

    path: str  # "network.mobility"
    name: str  # "mobility"
    values: tuple[Any, ...]  # one a point

    @property
    def texts(self) -> tuple[str, ...]:
        """The values as they are printed, one a point."""
        return tuple(show(value) for value in self.values)


@dataclass(frozen=True)
class Curve:
    """The accuracy of one point against the rounds."""

    rounds: np.ndarray  # [E]
    accuracy: np.ndarray  # [S, E] mean over clients; NaN where a seed has no value
    groups: dict[str, np.ndarray]  # [S, E] by GROUP_KEYS; NaN where a group is empty, no entry in runs without them
    sent: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # [S, E] by the values of X_KEYS

    def along(self, x_axis: str) -> np.ndarray:
        """What the curve is drawn against, [E]: the rounds, or the mean over clients and seeds of what was sent.

        Raises:
          UserError: where the run has not recorded it.
        """
        if x_axis == "rounds":
            return self.rounds
        if X_KEYS.get(x_axis) not in self.sent:
            raise UserError(f"the x axis is {x_axis!r}; this run has rounds, {', '.join(self.sent)}")
        return self.sent[X_KEYS[x_axis]].mean(axis=0)


@dataclass(frozen=True)
class Run:
    """All that the report needs of one workdir."""

    workdir: Path
    manifest: dict[str, Any]  # config.json
    summary: dict[str, Any]  # summary.json
    curves: dict[str, Curve]  # point id -> curve
    first_seed: dict[str, np.ndarray]  # "0/position" [R+1, N, 2], "0/label_counts" [N, C], "0/is_mobile" [N], ...

    @property
    def points(self) -> list[dict[str, Any]]:
        """The points of summary.json, in order."""
        return self.summary["points"]

    @property
    def config(self) -> dict[str, Any]:
        """The resolved base configuration, before the points' overrides."""
        return self.manifest["config"]

    @property
    def axes(self) -> list[Axis]:
        """The settings that differ between the points, but for the one of which each has its best value."""
        return [axis for axis in sweep_axes(self.points, self.config) if axis.path != self.config.get("select")]

    def value(self, point: int, path: str) -> Any:
        """The value that a point has for a dotted path of the configuration; None if it has none."""
        return _value(self.points[point], path, self.config)

    def array(self, point: int, name: str) -> np.ndarray | None:
        """The first seed of an array of history.npz, or None where it was not recorded."""
        return self.first_seed.get(f"{point}/{name}")


def read_workdir(workdir: Path) -> Run:
    """Reads config.json, summary.json, metrics.jsonl and history.npz of a workdir.

    Raises:
      UserError: a file is absent, unreadable or of another schema; the line names the file.
    """
    if not workdir.is_dir():
        raise UserError(f"{workdir}: no such directory")
    manifest = _read_json(workdir / "config.json", ("config", "seeds"))
    summary = _read_json(workdir / "summary.json", ("points", "baseline"))
    if not summary["points"]:
        raise UserError(f"{workdir / 'summary.json'}: has no points")
    for point in summary["points"]:
        _require(point, ("id", "overrides", "final_accuracy"), workdir / "summary.json")
    ids = [point["id"] for point in summary["points"]]
    judged = "mean_model_accuracy" if manifest["config"].get("judged") == "global" else "accuracy"
    curves = _read_curves(workdir / "metrics.jsonl", ids, judged)
    arrays = _read_first_seed(workdir / "history.npz")
    shown = chosen(summary)
    at = {str(ids.index(point["id"])): str(p) for p, point in enumerate(shown["points"])}
    kept = {f"{at[p]}/{name}": arrays[f"{p}/{name}"] for p, _, name in (k.partition("/") for k in arrays) if p in at}
    return Run(workdir, manifest, shown, {point["id"]: curves[point["id"]] for point in shown["points"]}, kept)


def chosen(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The summary with the best points of each choice only (`mdfl_jax.experiments.select`); as it is without one."""
    best = {entry["id"] for entry in summary.get("selected") or ()} - {None}
    points = [p for p in summary["points"] if p["id"] in best] if best else summary["points"]
    return {**summary, "points": points}


def show(value: Any) -> str:
    """A configuration value as printed in tables and legends.

    >>> [show(v) for v in (None, 0.05, 3.0, float("inf"), "dam", True, [1, 2])]
    ['-', '0.05', '3', 'inf', 'dam', 'true', '[1, 2]']
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value or value != value else repr(value)
    return json.dumps(value)


def sweep_axes(points: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None) -> list[Axis]:
    """The overrides that differ between points, named by the last component of their path.

    A last component that two axes share is written with the one before it; of `algorithm.name`, `algorithm` is kept,
    since "name" alone says nothing. A point without an override has the value of `config`.

    >>> points = [{"overrides": {"network.radius": r, "rounds": 9}} for r in (3.0, 5.0)]
    >>> [(axis.name, axis.texts) for axis in sweep_axes(points)]
    [('radius', ('3', '5'))]
    """
    paths = dict.fromkeys(path for point in points for path in point["overrides"])
    varying = {path: tuple(_value(point, path, config or {}) for point in points) for path in paths}
    varying = {path: values for path, values in varying.items() if len({show(value) for value in values}) > 1}
    short = {path: path.removesuffix(".name").rsplit(".", 1)[-1] for path in varying}
    taken = list(short.values())
    names = {p: ".".join(p.rsplit(".", 2)[-2:]) if taken.count(name) > 1 else name for p, name in short.items()}
    return [Axis(path, names[path], values) for path, values in varying.items()]


def point_labels(points: Sequence[Mapping[str, Any]], axes: Sequence[Axis]) -> list[str]:
    """One label a point: a name stands for itself, a number is written `radius = 3`; the id where nothing differs."""
    if not axes:
        return [str(point["id"]) for point in points]
    parts = [
        [
            text if isinstance(value, str) and value != "inf" else f"{axis.name} = {text}"
            for value, text in zip(axis.values, axis.texts)
        ]
        for axis in axes
    ]
    return [", ".join(label) for label in zip(*parts)]


def _value(point: Mapping[str, Any], path: str, config: Mapping[str, Any]) -> Any:
    if path in point["overrides"]:
        return point["overrides"][path]
    node: Any = config
    for part in path.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return None
        node = node[part]
    return node


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; is the run finished?") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{where}: not a JSON object")
    if content.get("schema") != SCHEMA:
        raise UserError(f"{where}: schema is {content.get('schema')!r}; this version reads schema {SCHEMA}")
    return content


def _require(content: Any, keys: Sequence[str], path: Path) -> None:
    missing = [key for key in keys if not isinstance(content, dict) or key not in content]
    if missing:
        raise UserError(f"{path}: lacks {', '.join(map(repr, missing))}")


def _read_json(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    content = _parse(_read_text(path), str(path))
    _require(content, keys, path)
    return content


def _read_curves(path: Path, ids: Sequence[str], judged: str) -> dict[str, Curve]:
    """Curves by point, of the accuracy ``judged``; of two lines for one point, seed and round the later counts."""
    values: dict[str, dict[tuple[int, int], dict[str, Any]]] = {name: {} for name in ids}
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        row = _parse(line, f"{path}:{number}")
        _require(row, ("point", "seed", "round", judged), path)
        if row["point"] in values:
            kept = {key: row[key] for key in (judged, *GROUP_KEYS, *X_KEYS.values()) if key in row}
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
        sent = {key: arrays.pop(key) for key in X_KEYS.values() if key in arrays}
        curves[name] = Curve(np.array(list(rounds)), arrays.pop(judged), arrays, sent)
    return curves


def _read_first_seed(path: Path) -> dict[str, np.ndarray]:
    """The first seed's label counts, mobile masks and positions; the other arrays are for other readers."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; is the run finished?")
    arrays = {}
    try:
        with np.load(path) as history:
            for key in history.files:
                axes = _FIRST_SEED_ARRAYS.get(key.rpartition("/")[2])
                if axes is None:
                    continue
                array = history[key]
                if array.ndim != axes or not len(array):
                    raise UserError(f"{path}: {key} has shape {array.shape}; {axes} axes with a first seed are needed")
                arrays[key] = np.array(array[0])
    except (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: cannot be read: {error}") from None
    return arrays
