"""A study as the report sees it: the settings that differ between its points, its curves and recorded numbers.

All statistics of a study that still runs are taken at one round, so that the sweep points can be compared: the latest
round that at least half of the sweep points that have begun have reached under some seed. The statistics are over the
seeds that have reached this round. A sweep point that has not reached it has no result yet, but it has a curve.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.metric import ROUNDS as BY_ROUND
from mdfl_jax.core.metric import Shown
from mdfl_jax.core.outcomes import Line, Runs, by_run, judged_key, seeds_of, selected_fields
from mdfl_jax.core.sweep_text import LONG, labels_for, labels_of, show
from mdfl_jax.metrics import AXIS, CLASSES, CLIENTS
from mdfl_jax.metrics.built_in.every_study import DIVERGENCE
from mdfl_jax.results.records import lines_of_point, read_records, read_study
from mdfl_jax.results.results import NOT_METRICS, StudyResults, declared
from mdfl_jax.results.summary import PointRuns, summarize
from mdfl_jax.storage.study_files import METRICS, no_streets, read_lines, read_streets, run_path, runs_in


@dataclass(frozen=True)
class Axis:
    """One setting that differs between the sweep points."""

    path: str  # "network.mobility"
    name: str  # "mobility"
    values: tuple[Any, ...]  # one for each sweep point
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)  # names of printed values

    @functools.cached_property
    def full_texts(self) -> tuple[str, ...]:
        """The printed values, of which the first one of each kind has the long form of its label."""
        printed = [show(value) for value in self.values]
        return tuple(
            self.labels[text] if text in self.labels and text not in printed[:p] else short
            for p, (text, short) in enumerate(zip(printed, self.texts))
        )

    @functools.cached_property
    def texts(self) -> tuple[str, ...]:
        """The printed values, one for each sweep point; of an empty one as 'no attack'."""
        printed = [show(value) for value in self.values]
        none = f"no {self.title}"
        return tuple(short(self.labels[text]) if text in self.labels else text or none for text in printed)

    @property
    def title(self) -> str:
        """The name in words."""
        return spaced(self.name)

    @functools.cached_property
    def distinct(self) -> tuple[str, ...]:
        """The different printed values in order: numbers by size, other values as the study lists them."""
        return tuple(self.numbers or dict.fromkeys(self.texts))

    @functools.cached_property
    def at(self) -> tuple[int, ...]:
        """The index in ``distinct`` of the value of each sweep point."""
        return tuple(map(self.distinct.index, self.texts))

    @functools.cached_property
    def numbers(self) -> dict[str, float]:
        """The values as numbers by their printed form, the smallest first; none if one of them is no number."""
        found = [(number, text) for text, x in zip(self.texts, self.values) if (number := as_number(x)) is not None]
        return {text: number for number, text in sorted(found)} if len(found) == len(self.values) else {}


def as_number(value: Any) -> float | None:
    """Return a configuration value as a number, or None if it is none. Files have infinity as a text.

    >>> [as_number(v) for v in (3, 0.5, "inf", True, "dam", None, float("nan"))]
    [3.0, 0.5, inf, None, None, None, None]
    """
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(value)


def sweep_axes(
    points: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None, labelled: bool = True
) -> list[Axis]:
    """Return the overrides that differ between sweep points, named by the last component of their path.

    The configuration's `labels` give values and settings other names, unless ``labelled`` is False.

    If two axes have the same last component, their names also contain the component before it. For `algorithm.name` the
    name is `algorithm`, since "name" alone is not informative. A sweep point without an override has the value of the
    resolved base configuration.

    Raises:
      UserError: if labels give two values of an axis one name.

    >>> points = [{"overrides": {"network.radius": r, "rounds": 9}} for r in (3.0, 5.0)]
    >>> [(axis.name, axis.texts) for axis in sweep_axes(points)]
    [('radius', ('3', '5'))]
    """
    paths = dict.fromkeys(path for point in points for path in point["overrides"])
    varying = {path: tuple(value_of(point, path, config or {}) for point in points) for path in paths}
    varying = {path: values for path, values in varying.items() if len({show(value) for value in values}) > 1}
    last = {path: path.removesuffix(".name").rsplit(".", 1)[-1] for path in varying}
    taken = list(last.values())
    names = {p: ".".join(p.rsplit(".", 2)[-2:]) if taken.count(name) > 1 else name for p, name in last.items()}
    labels = labels_of((config or {}).get("labels") or "") if labelled else {}
    axes = [
        Axis(path, labels.get(path, names[path]), values, labels_for(labels, path)) for path, values in varying.items()
    ]
    for axis in axes:
        known: dict[str, str] = {}
        for value, text in zip(map(show, axis.values), axis.texts):
            if known.setdefault(text, value) != value:
                raise UserError(f"labels: {text!r} would stand for {known[text]} and for {value} of {axis.path}")
    return axes


def point_labels(points: Sequence[Mapping[str, Any]], axes: Sequence[Axis], full: bool = False) -> list[str]:
    """Return one label for each sweep point, made from its values of the axes.

    A text is used as it is; a number is written as `radius = 3`. Without axes, the label is the id of the sweep point.
    With ``full`` the first label of each value has its long form.
    """
    if not axes:
        return [str(point["id"]) for point in points]
    parts = [
        [
            text if isinstance(value, str) and as_number(value) is None else f"{axis.name} = {text}"
            for value, text in zip(axis.values, axis.full_texts if full else axis.texts)
        ]
        for axis in axes
    ]
    return [", ".join(label) for label in zip(*parts)]


def value_of(point: Mapping[str, Any], path: str, config: Mapping[str, Any]) -> Any:
    """Return the value of a sweep point for a dotted path of the configuration, or None if it has none."""
    if path in point["overrides"]:
        return point["overrides"][path]
    node: Any = config
    for part in path.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return None
        node = node[part]
    return node


def is_attacked(points: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> bool:
    """Tell whether some sweep points have attackers; means over clients are then over the honest ones."""
    return any(value_of(point, "attack.name", config) for point in points)


def spaced(name: str) -> str:
    """Return a name in its printed form, with spaces for underscores."""
    return name.replace("_", " ")


def short(label: str) -> str:
    """Return a label without its long form.

    >>> short("DCM: distribution-aware cluster-centre movement")
    'DCM'
    """
    return label.partition(LONG)[0]


ROUNDS = "rounds"  # the default x axis


@dataclass(frozen=True)
class Curve:
    """The numbers of metrics.jsonl of one sweep point against the rounds."""

    rounds: np.ndarray  # [E] evaluated rounds
    accuracy: np.ndarray  # [S, E] the one that is judged; NaN where a seed has no value, as after divergence
    values: dict[str, np.ndarray]  # [S, E] by key; NaN where one is not known, and no key of which none is known
    seeds: tuple[int, ...] = ()  # the S seeds

    @property
    def of_results(self) -> "Curve":
        """The curve of the seeds whose runs have not diverged, for means; the whole curve if all have diverged."""
        known = ~np.isnan(self.accuracy[:, -1])
        if known.all() or not known.any():
            return self
        seeds = tuple(seed for seed, is_known in zip(self.seeds, known) if is_known)
        return Curve(self.rounds, self.accuracy[known], {key: of[known] for key, of in self.values.items()}, seeds)

    def at(self, a_round: int) -> dict[int, float]:
        """Return the accuracy at a round by seed; nothing for a round that is not evaluated."""
        columns = self.accuracy[:, self.rounds == a_round]  # [S, 1], or [S, 0]
        return {seed: float(value) for seed, row in zip(self.seeds, columns) for value in row}


class Table:
    """The numbers of metrics.jsonl of some sweep points: ``table[key]`` is [P, S, E], NaN where one is not known.

    If two lines have the same sweep point, seed and round, the later one is used.

    Args:
      lines: the lines of metrics.jsonl.
      ids: the ids of the P sweep points.

    Attributes:
      seeds, rounds: [S] and [E], those of all these points.
      known: [P, S, E] bool, where there is a line.
      keys: the entries of the lines.
    """

    def __init__(self, lines: Sequence[Mapping[str, Any]], ids: Sequence[str]):
        index = {name: p for p, name in enumerate(ids)}
        self._rows = [row for row in lines if row["point"] in index]
        self.seeds, self.rounds = (np.array(sorted({row[of] for row in self._rows}), int) for of in ("seed", "round"))
        self._place = (
            np.array([index[row["point"]] for row in self._rows], int),
            np.searchsorted(self.seeds, [row["seed"] for row in self._rows]),
            np.searchsorted(self.rounds, [row["round"] for row in self._rows]),
        )
        self.known = np.zeros((len(ids), len(self.seeds), len(self.rounds)), bool)
        self.known[self._place] = True
        self.keys = list(dict.fromkeys(key for row in self._rows for key in row if key not in NOT_METRICS))

    def __getitem__(self, key: str) -> np.ndarray:
        array = np.full(self.known.shape, np.nan)
        array[self._place] = np.array([row.get(key) for row in self._rows], float)  # None is NaN, "inf" infinity
        return array


def make_curves(table: Table, ids: Sequence[str], judged: str) -> dict[str, Curve]:
    """Make the curves by sweep point.

    Args:
      table: the numbers of the sweep points.
      ids: their ids.
      judged: the key of the accuracy.
    """
    arrays, curves = {key: table[key] for key in dict.fromkeys([judged, *table.keys])}, dict[str, Curve]()
    for p, (name, known) in enumerate(zip(ids, table.known)):
        seeds, rounds = known.any(axis=1), known.any(axis=0)
        own = {key: of[p][np.ix_(seeds, rounds)] for key, of in arrays.items()}
        values = {key: of for key, of in own.items() if not np.isnan(of).all()}
        curves[name] = Curve(table.rounds[rounds], own[judged], values, tuple(table.seeds[seeds].tolist()))
    return curves


Result = TypeVar("Result")
Rest = ParamSpec("Rest")


@dataclass(frozen=True, eq=False)
class ReportData:
    """The content of one workdir that the report needs, or of several that are compared (`mdfl_jax.report.compare`).

    A comparison has no arrays of its own: those of a sweep point are in its study.
    """

    workdir: Path
    manifest: dict[str, Any]  # config.json
    summary: dict[str, Any]  # summary.json
    curves: dict[str, Curve]  # point id -> curve
    x_axis: str = ROUNDS  # the x axis of the accuracy curves: "rounds" or the name of a metric
    lines: Sequence[Mapping[str, Any]] = ()  # metrics.jsonl, with the lines of all sweep points
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)  # history.npz, each read when asked for
    places: tuple[int, ...] = ()  # the index in history.npz of each sweep point
    remarks: tuple[str, ...] = ()  # sentences at the top of the page, such as how far an unfinished study is
    streets: np.ndarray = dataclasses.field(default_factory=no_streets)  # [K, 4] those of the map, [0, 4] for none
    all_points: Sequence[dict[str, Any]] = ()  # the sweep points of summary.json, those too that `select` left out
    studies: tuple["ReportData", ...] = ()  # the studies of a comparison; none if this is one study
    parts: tuple[tuple[int, int], ...] = ()  # of a comparison: the study and its sweep point, for each sweep point
    memo: dict[Any, Any] = dataclasses.field(default_factory=dict, init=False, repr=False)  # of `kept` functions

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
        """The settings that differ between the sweep points, except those whose best values ``select`` chose."""
        chosen = selected_fields(self.config.get("select")) if self.summary.get("selected") else ()
        return [axis for axis in sweep_axes(self.points, self.config) if axis.path not in chosen]

    @property
    def labels(self) -> list[str]:
        """The label of each sweep point in tables and legends: its values of the settings that differ."""
        return self._named(full=False)

    @property
    def full_labels(self) -> list[str]:
        """The same with the long forms of the configuration's `labels`."""
        return self._named(full=True)

    def _named(self, full: bool) -> list[str]:
        axes = self.axes
        if axes:
            return [spaced(label) for label in point_labels(self.points, axes, full)]
        labels = labels_of(self.config.get("labels") or "")
        names = [labels.get(str(point["id"]), spaced(str(point["id"]))) for point in self.points]
        return names if full else list(map(short, names))

    @property
    def x_title(self) -> str:
        """The label of the x axis."""
        return "round" if self.x_axis == ROUNDS else axes_of(self.summary)[self.x_axis].title

    def curve(self, point: int) -> Curve:
        """Return the curve of a sweep point."""
        return self.curves[self.points[point]["id"]]

    def along(self, point: int) -> np.ndarray:
        """Return where the evaluations of a sweep point are along the x axis, [E]: the rounds, or means over the seeds.

        Raises:
          UserError: if the point has not recorded the metric of the axis.
        """
        curve = self.curve(point).of_results
        if self.x_axis == ROUNDS:
            return curve.rounds.astype(float)
        metric = axes_of(self.summary)[self.x_axis]
        if metric.key not in curve.values:
            raise UserError(f"the x axis is {self.x_axis!r}; {self.points[point]['id']} has not recorded it")
        return curve.values[metric.key].mean(axis=0) / metric.scale

    def study_of(self, point: int) -> tuple["ReportData", int]:
        """Return the study of a sweep point, and the index of the point there."""
        study, of_study = self.parts[point] if self.parts else (0, point)
        return (self.studies[study] if self.parts else self), of_study

    def value(self, point: int, path: str) -> Any:
        """Return the value of a sweep point for a dotted path of the configuration, or None if it has none."""
        study, of_study = self.study_of(point)
        if study is not self and path not in self.points[point]["overrides"]:
            return study.value(of_study, path)
        found = value_of(self.points[point], path, self.config)
        return self.numbers(point).get(path) if found is None else found

    def numbers(self, point: int) -> Mapping[str, Any]:
        """Return the numbers of members that are in effect at a sweep point, by path."""
        return self._numbers.get(self.points[point]["id"], {})

    @functools.cached_property
    def _numbers(self) -> dict[str, Mapping[str, Any]]:
        return {of["id"]: of.get("numbers", {}) for of in self.manifest.get("points", ())}

    def seeds(self, point: int) -> tuple[int, ...]:
        """Return the seeds of a sweep point, in the order of the first axis of its arrays."""
        found = self.curve(point).seeds
        written = self.points[point].get("seeds") or self.manifest["seeds"]
        return tuple(written) if sorted(written) == sorted(found) else found

    def end(self, point: int) -> int:
        """Return the index of the evaluation that a sweep point's results are of: the summary's round, or the last."""
        found = np.flatnonzero(self.curve(point).rounds == self.summary.get("round"))
        return int(found[0]) if len(found) else -1

    def array(self, point: int, name: str) -> np.ndarray | None:
        """Return an array of history.npz for a sweep point and its first seed, or None if it was not recorded."""
        study, of_study = self.study_of(point)
        return _first_seed(study, f"{study.places[of_study]}/{name}")

    def only(self, points: Sequence[int]) -> "ReportData":
        """Return the same study with some of its sweep points, given by index."""
        return dataclasses.replace(
            self,
            summary={**self.summary, "points": [self.points[p] for p in points]},
            curves={self.points[p]["id"]: self.curves[self.points[p]["id"]] for p in points},
            places=tuple(self.places[p] for p in points) if self.places else (),
            parts=tuple(self.parts[p] for p in points) if self.parts else (),
        )

    def labelled(self, labels: str) -> "ReportData":
        """Return the same study with other names for tables and figures, in the form of the field `labels`.

        Raises:
          UserError: if the text is not of that form, or if it names a value or a setting that does not vary here.
        """
        known = {axis.path for axis in self.axes}
        known |= {key for axis in self.axes for text in map(show, axis.values) for key in (text, f"{axis.path}={text}")}
        for name in labels_of(labels):
            if name not in known:
                raise UserError(f"--labels={labels}: {unknown_name('value or setting', name, sorted(known))}")
        return dataclasses.replace(self, manifest={**self.manifest, "config": {**self.config, "labels": labels}})

    def history(self, point: int, name: str) -> np.ndarray | None:
        """Return an array [S, ...] of history.npz for a sweep point and all seeds, or None if it was not recorded.

        Raises:
          UserError: if the array cannot be read.
        """
        study, of_study = self.study_of(point)
        return study.arrays.get(f"{study.places[of_study]}/{name}")

    def heard(self, point: int) -> np.ndarray | None:
        """Return who heard whom in each round, [S, R, N, ceil(N/8)] bits, or None if it was not recorded.

        Where there is no record of its own, messages went over all links.
        """
        return self.history(point, "heard" if self.has(point, "heard") else "links")

    def has(self, point: int, name: str) -> bool:
        """Tell whether an array of history.npz was recorded for a sweep point, without reading it."""
        study, of_study = self.study_of(point)
        return f"{study.places[of_study]}/{name}" in study.arrays


def kept(found_in: Callable[Concatenate[ReportData, Rest], Result]) -> Callable[Concatenate[ReportData, Rest], Result]:
    """Return a function that keeps its results with the study, since several panels ask for the same ones."""

    @functools.wraps(found_in)
    def asked(study: ReportData, *args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        question = (found_in, args, tuple(kwargs.items()))
        if question not in study.memo:
            study.memo[question] = found_in(study, *args, **kwargs)
        return study.memo[question]

    return asked


_AXES = {"label_counts": 3, "is_mobile": 2, "position": 4}  # arrays of history.npz, of which the first seed is shown


@kept
def _first_seed(study: ReportData, key: str) -> np.ndarray | None:
    """Return the first seed's part of an array of history.npz, or None if there is no such array."""
    array, axes = study.arrays.get(key), _AXES.get(key.partition("/")[2])
    if array is None:
        return None
    if not len(array) or axes not in (None, array.ndim):
        path = study.workdir / "history.npz"
        raise UserError(f"{path}: {key} has shape {array.shape}; {axes} axes with a first seed are needed")
    return np.array(array[0])


def axes_of(summary: Mapping[str, Any]) -> dict[str, Shown]:
    """Return the metrics that can be the x axis of a curve, by name."""
    return {metric.name: metric for metric in declared(summary) if AXIS in metric.where}


def read_workdir(workdir: Path, x_axis: str = "") -> ReportData:
    """Read a study from the records of its runs.

    The results of an unfinished study are those at a round that enough of its runs have reached
    (`mdfl_jax.report.read`), and the remarks say so.

    Args:
      workdir: the folder of a study.
      x_axis: the x axis of the accuracy curves: "rounds" or a metric declared to be an axis; empty: the axis that the
        study's config names.

    Raises:
      UserError: if the folder does not hold a study, if a file is missing or unreadable, or if there is no such axis.
      NotYetError: if an unfinished study has no evaluation yet.
    """
    manifest = read_study(workdir)
    if all(run_path(workdir, run).is_file() for _, _, run in runs_in(manifest)):
        return make_report_data(StudyResults.open(workdir), x_axis)
    results, remarks = read_unfinished(workdir, manifest)
    return make_report_data(results, x_axis, remarks)


def make_report_data(results: StudyResults, x_axis: str = "", remarks: tuple[str, ...] = ()) -> ReportData:
    """Make the data of a report of what the files of a study hold.

    Args:
      results: the content of the files. Its workdir is the folder for the report.
      x_axis: as in `read_workdir`.
      remarks: sentences for the top of the page.

    Raises:
      UserError: if there is no such axis.
    """
    manifest, summary, workdir = results.manifest, results.summary, results.workdir or Path()
    ids = [point["id"] for point in summary["points"]]
    judged = judged_key(manifest["config"])
    x_axis = x_axis or manifest["config"].get("x_axis") or ROUNDS
    if x_axis not in (ROUNDS, *axes_of(summary)):
        raise UserError(f"the x axis is {x_axis!r}; this study has {', '.join([ROUNDS, *axes_of(summary)])}")
    curves = make_curves(Table(results.lines, ids), ids, judged)
    points = [{"seeds": list(manifest["seeds"]), **point} for point in summary["points"]]
    whole = {**summary, "points": points}
    study = ReportData(
        workdir,
        manifest,
        whole,
        curves,
        x_axis,
        results.lines,
        results.arrays,
        places=tuple(range(len(ids))),
        remarks=remarks,
        streets=results.streets,
        all_points=points,
    )
    return study.only([ids.index(point["id"]) for point in chosen(whole)["points"]])


def chosen(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary with only the best sweep point of each group (`mdfl_jax.results.summary`).

    If no best points were selected, all sweep points are kept.
    """
    best = {entry["id"] for entry in summary.get("selected") or ()} - {None}
    points = [p for p in summary["points"] if p["id"] in best] if best else summary["points"]
    return {**summary, "points": points}


_ACCURACIES = {"accuracy", "mean_model_accuracy"}  # in [0, 1], shown in per cent
_UNDECLARED = {"double_bits": ("megabits sent by a client, counted in double precision", 1e6)}  # key -> (title, scale)
_PREFIXES = {1e3: "kilo", 1e6: "mega", 1e9: "giga"}
# Numbers that metrics.jsonl has besides a metric: the last part of the key -> (in words, whether in the metric's unit).
_FURTHER = {
    "min": ("lowest client", True),
    "max": ("highest client", True),
    "std": ("standard deviation over the clients", True),
    "variance": ("variance over the clients", False),
    "worst_decile": ("worst tenth of the clients", True),
    "jain": ("Jain's fairness index", False),
    "mobile": ("mobile clients", True),
    "other": ("other clients", True),
}


class Quantity(NamedTuple):
    """One recorded number of a run at an evaluation.

    Attributes:
      key: its key in metrics.jsonl.
      title: the text on an axis.
      scale: the values are divided by this number before they are shown.
      share: whether it is shown in per cent and always in [0, 100].
      of: the key of the metric that it belongs to; the key itself for the metric.
      per_client: whether it is the mean of one number for each client.
      grows: whether it starts at 0 and never falls, as a count since the start does, so that it can be an x axis.
    """

    key: str
    title: str
    scale: float
    share: bool
    of: str
    per_client: bool
    grows: bool


class Recorded(NamedTuple):
    """The numbers of all runs of a study at its evaluations. What a run has not recorded is NaN.

    Attributes:
      rounds: [E] the evaluated rounds of all sweep points.
      seeds: [S] the seeds of all sweep points.
      values: [P, S, E] by key.
      diverged: [P, S] bool, the runs that have diverged, which are in no mean.
      quantities: what the keys mean. Numbers that are nowhere known, always 0, or the same as others are left out.
    """

    rounds: np.ndarray
    seeds: np.ndarray
    values: dict[str, np.ndarray]
    diverged: np.ndarray
    quantities: list[Quantity]


@kept
def recorded(study: ReportData) -> Recorded:
    """Return all numbers in metrics.jsonl of the shown sweep points."""
    table = Table(study.lines, [point["id"] for point in study.points])
    finite = {key: np.where(np.isfinite(of := table[key]), of, np.nan) for key in table.keys if key not in DIVERGENCE}
    diverged = np.isfinite(table[DIVERGENCE[0]]).any(axis=2)
    metrics = {metric.key: metric for metric in declared(study.summary)}
    telling = _telling(finite, table.rounds, metrics)
    quantities = [_quantity(key, array, metrics) for key, array in telling.items()]
    if study.config.get("judged") == "global":
        quantities = [of._replace(title=of.title.replace("the mean model", "the global model")) for of in quantities]
    return Recorded(table.rounds, table.seeds, telling, diverged, quantities)


def _telling(
    values: Mapping[str, np.ndarray], rounds: np.ndarray, metrics: Mapping[str, Shown]
) -> dict[str, np.ndarray]:
    """Return the numbers that say something to a reader.

    Left out are numbers that are unknown or 0 everywhere, those that are the rounds again, and those that no metric
    declares and that are the same as a declared one.
    """
    kept: dict[str, np.ndarray] = {}
    for key, array in values.items():
        known = np.isfinite(array)
        if not array[known].any() or np.array_equal(array[known], np.broadcast_to(rounds, array.shape)[known]):
            continue
        if key in _UNDECLARED and any(np.allclose(array, kept[of], equal_nan=True) for of in metrics if of in kept):
            continue
        kept[key] = array
    return kept


def _quantity(key: str, array: np.ndarray, metrics: Mapping[str, Shown]) -> Quantity:
    """Describe one number: a declared metric, a further number of one, or a number that no declaration explains."""
    of = max((name for name in metrics if key == name or key.startswith(name + "_")), key=len, default=key)
    metric = metrics.get(of)
    title, scale = _UNDECLARED.get(key, (key.replace("_", " "), 1.0))
    if metric is not None:
        title, scale = metric.title, 0.01 if of in _ACCURACIES else metric.scale
        title = title.replace(f"({metric.unit})", f"({_PREFIXES.get(scale, '')}{metric.unit})")
    share = scale == 0.01 and bool(np.nanmin(array) >= 0 and np.nanmax(array) <= 1)
    per_client = metric is not None and tuple(metric.shape[:1]) == (CLIENTS,)
    if metric is not None and key != of:
        rest = key[len(of) + 1 :]
        words, same_unit = _FURTHER.get(rest, (rest.replace("_", " "), True))
        title, per_client = f"{title.removesuffix(' (%)')}, {words}", False
        scale, share = (scale, share) if same_unit else (1.0, False)
    if scale == 0.01 and "%" not in title:
        title += " (%)"
    axis = metric is not None and key == of and AXIS in metric.where
    return Quantity(key, title, scale, share, of, per_client, axis or (per_client and not share and _grows(array)))


def _grows(array: np.ndarray) -> bool:
    """Whether all runs [P, S, E] start at 0 and never fall, and at least one of them rises."""
    runs = (run[np.isfinite(run)] for run in array.reshape(-1, array.shape[-1]))
    known = [run for run in runs if len(run)]
    return all(run[0] == 0 and (np.diff(run) >= 0).all() for run in known) and any(run[-1] > 0 for run in known)


def of_clients(study: ReportData, point: int, key: str, metrics: Mapping[str, Shown]) -> np.ndarray | None:
    """Return the numbers of the single clients [S, E, N] of a sweep point, or None if they were not recorded.

    Args:
      study: the study.
      point: the index of the sweep point.
      key: the key of a metric.
      metrics: the declared metrics by key.
    """
    shape = metrics[key].shape if key in metrics else ()
    if tuple(shape[:1]) != (CLIENTS,) or {CLASSES, BY_ROUND} & set(shape):
        return None
    array, mobile = study.history(point, key), study.array(point, "is_mobile")
    evaluations = len(study.curve(point).rounds)
    if array is None or array.ndim != 3 or array.shape[1] != evaluations:
        return None
    if mobile is not None and array.shape[2] != len(mobile):
        return None  # an axis of another meaning
    return array if np.isfinite(array).any() else None


def rounds_done(study: ReportData, point: int) -> int | None:
    """Return the number of rounds that the first seed has run; None if it was not recorded.

    It is smaller than the number of rounds of the study if the stop rule has ended the run.
    """
    found = study.history(point, "rounds_done")
    return None if found is None or not found[0].size else int(found[0, -1])


def rounds_counted(study: ReportData, point: int) -> int | None:
    """Return the number of rounds that the statistics are of: those done, but none after the round of the results."""
    done, at = rounds_done(study, point), study.summary.get("round")
    return at if done is None else done if at is None else min(done, at)


_MOST = 6  # so many sweep points are named in a sentence


class NotYetError(UserError):
    """A study has only begun, and nothing can be shown of it yet."""


def read_unfinished(workdir: Path, manifest: dict[str, Any]) -> tuple[StudyResults, tuple[str, ...]]:
    """Read what an unfinished study has: the records of finished runs, and the lines of those that are under way.

    Args:
      workdir: the folder of the study.
      manifest: the content of its config.json.

    Returns:
      The results, whose lines are those that the curves show and whose sweep points are those that have begun; and how
      far the study is, in sentences.

    Raises:
      NotYetError: if it has no evaluation yet.
      UserError: if a file cannot be read.
    """
    path = workdir / METRICS
    found = by_run(read_lines(path) if path.is_file() else [])
    for point, records in zip(manifest["points"], read_records(workdir, manifest)):
        for record in records:
            lines: dict[int, Line] = {line["round"]: line for line in lines_of_point(point["id"], record)}
            found.setdefault(point["id"], {})[record.seed] = lines
    begun = [point for point in manifest["points"] if found.get(point["id"])]
    if not begun:
        raise NotYetError(f"{workdir}: the study has only begun: it has no evaluation yet")
    runs = {point["id"]: found[point["id"]] for point in begun}
    at = common_round(runs)
    kept = {name: _kept(of, at) for name, of in runs.items()}
    summary = summarize_at({**manifest, "points": begun}, kept, at)
    shown = [dict(line) for of in kept.values() for by_round in of.values() for line in by_round.values()]
    results = StudyResults(manifest, summary, shown, {}, workdir, read_streets(workdir))
    return results, _describe_progress(manifest, runs, at)


def common_round(runs: Mapping[str, Runs]) -> int:
    """Return the latest round that at least half of the sweep points have reached under some seed.

    >>> common_round({"a": {0: {400: {}}}, "b": {0: {400: {}}, 1: {20: {}}}, "c": {0: {20: {}}}})
    400
    """
    furthest = sorted((max(map(max, of.values())) for of in runs.values()), reverse=True)
    return furthest[(len(furthest) + 1) // 2 - 1]


def _kept(runs: Runs, at: int) -> Runs:
    """Return the lines of the runs that have reached a round, or else of the furthest runs, until one of them ends."""
    last = {seed: max(by_round) for seed, by_round in runs.items()}
    least = min(at, max(last.values()))
    seeds = sorted(seed for seed, end in last.items() if end >= least)
    until = min(last[seed] for seed in seeds)
    return {seed: {r: runs[seed][r] for r in sorted(runs[seed]) if r <= until} for seed in seeds}


def summarize_at(manifest: Mapping[str, Any], runs: Mapping[str, Runs], at: int) -> dict[str, Any]:
    """Return results in the form of summary.json, at one round, from lines of metrics.jsonl.

    Args:
      manifest: the content of config.json, with its own `metrics` and `accuracy_is`, as in summary.json.
      runs: the lines by sweep point, seed and round.
      at: the round. A sweep point without a seed that has reached it has results without values.
    """
    reached = [
        {seed: [of[r] for r in sorted(of) if r <= at] for seed, of in runs[point["id"]].items() if at in of}
        for point in manifest["points"]
    ]
    points = [{**point, "seeds": list(lines)} for point, lines in zip(manifest["points"], reached)]
    config = {**manifest["config"], "select": ""}  # nothing is chosen before the end
    own = [Shown(**entry) for entry in manifest.get("metrics") or ()]
    about = {"config": config, "points": points}
    return {"round": at} | summarize(about, list(map(PointRuns, reached)), own, manifest.get("accuracy_is") or "")


def _describe_progress(manifest: Mapping[str, Any], runs: Mapping[str, Runs], at: int) -> tuple[str, ...]:
    """Return how far the study is: its runs, the round of its results, and the points that have not reached it."""
    total = manifest["config"].get("rounds")
    planned = sum(len(seeds_of(manifest, p)) for p in range(len(manifest["points"])))
    ends = {name: [max(by_round) for by_round in of.values()] for name, of in runs.items()}
    done = sum(end == total for of in ends.values() for end in of)
    begun = sum(map(len, ends.values()))
    said = [
        f"This study is unfinished: of its {planned} runs {done} have ended and {begun - done} are under way.",
        f"The results below are those at round {at} of {total}, over the seeds that have reached it.",
    ]
    late = [str(p["id"]) for p in manifest["points"] if max(ends.get(p["id"], [-1])) < at]
    said += [f"These points have not reached it yet: {_named(late)}."] if late else []
    some = {name: sum(end >= at for end in of) for name, of in ends.items()}
    most = max(some.values())
    fewer = [f"{name} ({count})" for name, count in some.items() if 0 < count < most]
    said += [f"In these points fewer than {most} seeds have reached it: {_named(fewer)}."] if fewer else []
    return tuple(said)


def _named(points: Sequence[str]) -> str:
    """Return the names of sweep points, of many only the first ones and the number of the others."""
    more = f" and {len(points) - _MOST} more" if len(points) > _MOST else ""
    return "; ".join(points[:_MOST]) + more
