"""The class `Results`: a study as Python, the tables, the page and the exports read it.

And the files that are made of its records, at any time: metrics.jsonl, summary.json and history.npz. They are for
people and for other tools. No code of this package reads them again.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.metric import AXIS, CLASSES, CLIENT_BYTES, CLIENTS, Shown
from mdfl_jax.core.metric import ROUNDS as BY_ROUND
from mdfl_jax.core.outcomes import judged_key, parsed_number, selected_fields
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.sweep_text import labels_of
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.results.axes import Axis, axis_value, point_labels, short, spaced, sweep_axes
from mdfl_jax.results.evaluations import NOT_METRICS, Curve, Evaluations
from mdfl_jax.results.lines import WEIGHT
from mdfl_jax.results.records import (
    FACTS,
    LazyArrays,
    PointArrays,
    RunRecord,
    StudyArrays,
    lines_of_point,
    metrics_in_order,
    read_records,
    read_study,
    title_of,
)
from mdfl_jax.results.summary import PointRuns, summarize
from mdfl_jax.results.unfinished import read_unfinished
from mdfl_jax.storage import disk
from mdfl_jax.storage.disk import write_arrays, write_json
from mdfl_jax.storage.model_files import CLIENTS as OF_CLIENTS
from mdfl_jax.storage.model_files import GLOBAL, client_mean, files_of, nested_tensors, read
from mdfl_jax.storage.provenance import joined_provenance
from mdfl_jax.storage.study_files import CONFIG, METRICS_FILE, no_streets, read_config, read_streets, run_path, runs_in

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

VIEWS: Registry[Callable[..., Any]] = Registry("view of results", home="mdfl_jax.report")
"""What draws results: "plot", "report", "map" and "table", functions of a `Results` in a room above this one."""
FACT_LABELS = {
    "label_counts": "samples of each label",
    "is_mobile": "whether a client is mobile",
    "reached": "whether a client ever meets the server",
}
_NAMES: Mapping[Any, str] = {CLIENTS: "client", CLIENT_BYTES: "client_byte", CLASSES: "label"}
_SECONDS = ("compile_seconds", "run_seconds")
ROUNDS = "rounds"  # the usual x axis
STATES, EVENTS = "each_round", "in_round"
"""The axes of values of every round: of R + 1 states, the first before the first round, and of what R rounds do."""
_SCORES = {metric.in_files for metric in BUILT_IN if metric.scores.sampled}  # of clients who do not count they are NaN


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Results:
    """The results of a study, read from its files, with its figures and its report.

    ``results["loss"]`` is the metric 'loss' as an array with named axes, and ``results.plot`` makes figures.

    Attributes:
      manifest: the content of config.json: name, configuration, seeds, versions, devices and times.
      summary: the content of summary.json. For each sweep point it has a dictionary with means over the seeds, 95 %
        intervals and paired differences.
      lines: the content of metrics.jsonl, one dictionary for each evaluation of each run.
      arrays: the arrays of history.npz by name: 'rounds' [E], and for the p-th sweep point of the summary 'p/accuracy'
        [S, E, N] and so on (docs/outputs.md). An unfinished study has none.
      workdir: the folder of the study; None if it was a temporary one.
      streets: [K, 4] the streets of a trace's map; [0, 4] for none.
      x_axis: the x axis of the accuracy curves: "rounds" or the name of a metric.
      remarks: sentences for the top of the page, such as how far an unfinished study is.
      places: the index in the summary of each sweep point that is shown. () stands for all.
      parts: of a comparison of studies: each sweep point's study and its index there.
      pairing: tells of the ids of two sweep points whether their runs are paired by seed, as those of one study are.
    """

    manifest: dict[str, Any]
    summary: dict[str, Any]
    lines: list[dict[str, Any]]
    arrays: Mapping[str, np.ndarray]
    workdir: Path | None
    streets: np.ndarray = dataclasses.field(default_factory=no_streets)
    x_axis: str = ROUNDS
    remarks: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    parts: tuple[tuple["Results", int], ...] = ()
    pairing: Callable[[str, str], bool] = lambda one, other: True

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", self.places or tuple(range(len(self.summary["points"]))))

    @classmethod
    def load(cls, workdir: str | Path) -> Self:
        """Read the results of a finished study.

        Args:
          workdir: the folder of the study. Without a config.json there, the study is that of all runs in its folder
            ``runs``.

        Raises:
          UserError: if the folder holds no finished study, if a file cannot be read, or if the files do not fit
            together.
        """
        found = cls.open(Path(workdir))
        return dataclasses.replace(found, arrays=dict(found.arrays))

    @classmethod
    def open(cls, workdir: Path) -> Self:
        """Read a finished study from the records of its runs. An array is read when it is asked for.

        Args:
          workdir: the folder of the study.

        Raises:
          UserError: as `load`.
        """
        manifest = read_study(workdir)
        absent = [name for _, _, name in runs_in(manifest) if not run_path(workdir, name).is_file()]
        if absent:
            total = sum(1 for _ in runs_in(manifest))
            raise UserError(
                f"{workdir}: the study there is not finished: {len(absent)} of its {total} runs are not there"
            )
        return cls.of_records(manifest, read_records(workdir, manifest), workdir)

    @classmethod
    def read(cls, workdir: str | Path) -> Self:
        """Read a study that may still run.

        The results of an unfinished study are those at a round that enough of its runs have reached
        (`mdfl_jax.results.unfinished`), and the remarks say so. Its sweep points are those that have begun.

        Args:
          workdir: the folder of the study.

        Raises:
          UserError: if the folder holds no study, or if a file is missing or cannot be read.
          NotYetError: if an unfinished study has no evaluation yet.
        """
        workdir = Path(workdir)
        manifest = read_study(workdir)
        if all(run_path(workdir, run).is_file() for _, _, run in runs_in(manifest)):
            return cls.open(workdir)
        summary, lines, remarks = read_unfinished(workdir, manifest)
        return cls(manifest, summary, lines, {}, workdir, read_streets(workdir), remarks=remarks)

    @classmethod
    def of_records(cls, manifest: dict[str, Any], records: Sequence[Sequence[RunRecord]], workdir: Path) -> Self:
        """Make the results of records.

        Args:
          manifest: the content of config.json.
          records: the records of each of its sweep points, in the order of the seeds.
          workdir: the folder of the study.
        """
        every = [record for of_point in records for record in of_point]
        if other := next((of for of in every if not np.array_equal(of.rounds, every[0].rounds)), None):
            raise UserError(f"{other.path}: it was evaluated in other rounds than {every[0].path.name}")
        arrays = [PointArrays(of_point) for of_point in records]
        ids = [point["id"] for point in manifest["points"]]
        lines = [line for name, of in zip(ids, records) for record in of for line in lines_of_point(name, record)]
        seconds_of = lambda of: {key: sum(getattr(run, key) for run in of) for key in _SECONDS}  # noqa: E731
        points = [
            PointRuns({of.seed: of.lines for of in of_point}, *rest)
            for of_point, *rest in zip(records, arrays, map(seconds_of, records))
        ]
        meanings = dict.fromkeys(record.header.get("accuracy_is") for record in every)
        summary = summarize(manifest, points, metrics_in_order(records), "; ".join(filter(None, meanings)))
        return cls(manifest | seconds_of(every), summary, lines, StudyArrays(arrays), workdir, read_streets(workdir))

    def without_workdir(self) -> Self:
        """Return the same results without a folder, since a temporary folder is removed."""
        return dataclasses.replace(self, workdir=None)

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration, without the overrides of the sweep points."""
        return self.manifest["config"]

    @cached_property
    def outcomes(self) -> list[dict[str, Any]]:
        """What summary.json says of each sweep point, in order."""
        usual = {"seeds": list(self.manifest["seeds"]), "baseline": self.summary.get("baseline")}
        return [{**usual, **self.summary["points"][place]} for place in self.places]

    @property
    def points(self) -> list[str]:
        """The ids of the sweep points, in order."""
        return [outcome["id"] for outcome in self.outcomes]

    @property
    def seeds(self) -> list[int]:
        """The seeds of the study. Without a config.json, a sweep point may have fewer (`seeds_of`)."""
        return self.manifest["seeds"]

    def seeds_of(self, point: int | str) -> list[int]:
        """Return the seeds of a sweep point, by its index or its id, in the order of the first axis of its arrays.

        Raises:
          UserError: for an unknown sweep point; the message lists the known ones.
        """
        p = self.index_of(point)
        found, written = self.curve(p).seeds, self.outcomes[p]["seeds"] or self.seeds
        return list(written if not found or sorted(written) == sorted(found) else found)

    @cached_property
    def evaluations(self) -> Evaluations:
        """The numbers of metrics.jsonl of the sweep points as arrays."""
        return Evaluations(self.lines, self.points)

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """The curve of each sweep point by its id."""
        if self.parts:
            own = [study.curve(p) for study, p in map(self.study_of, range(len(self.points)))]
        else:
            own = self.evaluations.curves(judged_key(self.config))
        return dict(zip(self.points, own))

    def curve(self, point: int) -> Curve:
        """Return the curve of a sweep point, by its index."""
        return self.curves[self.points[point]]

    def end(self, point: int) -> int:
        """Return the index of the evaluation that a sweep point's results are of: the summary's round, or the last."""
        found = np.flatnonzero(self.curve(point).rounds == self.summary.get("round"))
        return int(found[0]) if len(found) else -1

    @cached_property
    def declared(self) -> dict[str, Shown]:
        """The declarations of metrics by their key in history.npz: the built-in ones and the study's own."""
        every = [metric.described for metric in BUILT_IN] + [Shown(**own) for own in self.summary.get("metrics", ())]
        return {shown.key: shown for shown in every}

    @cached_property
    def x_axes(self) -> dict[str, Shown]:
        """The metrics that can be the x axis of a curve, by name."""
        return {metric.name: metric for metric in self.declared.values() if AXIS in metric.where}

    def keys(self) -> list[str]:
        """Return the names of the arrays that at least one sweep point has."""
        return list(dict.fromkeys(name.partition("/")[2] for name in self.arrays if "/" in name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def key_of(self, metric: str, known: Sequence[str] | None = None) -> str:
        """Return the name of a metric in files. The name of its declaration, such as 'bits', is known as well.

        Args:
          metric: the metric.
          known: the names that are there; None: those of history.npz.

        Raises:
          UserError: for a metric that was not recorded; the message lists the recorded ones.
        """
        key = next((shown.key for shown in self.declared.values() if shown.name == metric), metric)
        names = self.keys() if known is None else known
        if key not in names:
            raise UserError(unknown_name("metric", metric, names))
        return key

    def __getitem__(self, metric: str) -> "xr.DataArray":
        """Return the values of a metric of all sweep points, as an array with named axes (`to_xarray`).

        The accuracies and losses of attackers are NaN, and so in no mean. `array` returns them, too.
        """
        return data_array(self, self.key_of(metric))

    @property
    def accuracy(self) -> "xr.DataArray":
        """The test accuracy, in [0, 1], with the axes point, seed, round and client."""
        return self["accuracy"]

    @property
    def loss(self) -> "xr.DataArray":
        """The test loss, with the axes point, seed, round and client."""
        return self["loss"]

    @cached_property
    def axes(self) -> list[Axis]:
        """The settings that differ between the sweep points, except those whose best values ``select`` chose."""
        chosen = selected_fields(self.config.get("select")) if self.summary.get("selected") else ()
        return [axis for axis in sweep_axes(self.outcomes, self.config) if axis.path not in chosen]

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
            return [spaced(label) for label in point_labels(self.outcomes, axes, full)]
        labels = labels_of(self.config.get("labels") or "")
        names = [labels.get(name, spaced(name)) for name in self.points]
        return names if full else list(map(short, names))

    @property
    def x_title(self) -> str:
        """The label of the x axis."""
        return "round" if self.x_axis == ROUNDS else self.x_axes[self.x_axis].title

    def along(self, point: int) -> np.ndarray:
        """Return where the evaluations of a sweep point are along the x axis, [E]: the rounds, or means over the seeds.

        Raises:
          UserError: if the point has not recorded the metric of the axis.
        """
        curve = self.curve(point).of_results
        if self.x_axis == ROUNDS:
            return curve.rounds.astype(float)
        metric = self.x_axes[self.x_axis]
        if metric.key not in curve.values:
            raise UserError(f"the x axis is {self.x_axis!r}; {self.points[point]} has not recorded it")
        return curve.values[metric.key].mean(axis=0) / metric.scale

    @property
    def studies(self) -> tuple["Results", ...]:
        """The studies of a comparison, in order; none if this is one study."""
        return tuple(dict.fromkeys(study for study, _ in self.parts))

    def study_of(self, point: int) -> tuple["Results", int]:
        """Return the study of a sweep point, and the index of the point there."""
        return self.parts[self.places[point]] if self.parts else (self, point)

    def value(self, point: int, path: str) -> Any:
        """Return the value of a sweep point for a dotted path of the configuration, or None if it has none."""
        study, of_study = self.study_of(point)
        if study is not self and path not in self.outcomes[point]["overrides"]:
            return study.value(of_study, path)
        found = axis_value(self.outcomes[point], path, self.config)
        return self.numbers(point).get(path) if found is None else found

    def numbers(self, point: int) -> Mapping[str, Any]:
        """Return the numbers of members that are in effect at a sweep point, by path."""
        return self.entries.get(self.points[point], {}).get("numbers", {})

    @cached_property
    def entries(self) -> dict[str, Mapping[str, Any]]:
        """The sweep points of config.json by their ids; of an unfinished study also those that have not begun."""
        return {of["id"]: of for of in self.manifest.get("points", ())}

    def only(self, points: Sequence[int]) -> Self:
        """Return the same study with some of its sweep points, given by index."""
        return dataclasses.replace(self, places=tuple(self.places[p] for p in points))

    def chosen(self) -> Self:
        """Return the same study with the sweep points that `select` chose; with all of them if it chose none."""
        best = {entry["id"] for entry in self.summary.get("selected") or ()} - {None}
        return self.only([p for p, name in enumerate(self.points) if name in best]) if best else self

    def shown(self, x: str = "") -> Self:
        """Return what tables, figures and the page show of a study: the `chosen` sweep points along an x axis.

        Args:
          x: the x axis of the accuracy curves: "rounds", "round", or a metric declared to be an axis, such as
            "messages" or "bits"; empty: the axis that the study's configuration names.

        Raises:
          UserError: if there is no such axis.
        """
        x = x or self.config.get("x_axis") or ROUNDS
        named = {"round": ROUNDS, **{key: shown.name for key, shown in self.declared.items()}}.get(x, x)
        if named not in (ROUNDS, *self.x_axes):
            raise UserError(f"the x axis is {x!r}; this study has {', '.join([ROUNDS, *self.x_axes])}")
        return dataclasses.replace(self.chosen(), x_axis=named)

    def run_of(self, point: int | str = 0, seed: int | None = None) -> "Results":
        """Return the results of one run.

        Args:
          point: the index or the id of the sweep point.
          seed: the seed, one of ``results.seeds_of(point)``; None: the first one.

        Raises:
          UserError: for an unknown point or seed.
        """
        p = self.index_of(point)
        study, of_study = self.study_of(p)
        if study is not self:
            return study.run_of(of_study, seed)
        seed, name, place = _seed_of(self, p, seed), self.points[p], self.places[p]
        s = self.seeds_of(p).index(seed)
        of_seed = lambda key: self.arrays[f"{place}/{key}"][s : s + 1]  # noqa: E731
        of_run = {f"0/{key}": partial(of_seed, key) for key in self.keys() if self.has(p, key)}
        entry = self.entries[name]
        of_entry = entry.get("seeds", self.manifest["seeds"])  # points that were added may have seeds of their own
        entry = {**entry, "runs": [entry["runs"][of_entry.index(seed)]], "seeds": [seed]}
        return dataclasses.replace(
            self,
            manifest={**self.manifest, "points": [entry], "seeds": [seed]},
            summary={**self.summary, "points": [{**self.outcomes[p], "seeds": [seed]}], "selected": []},
            lines=[line for line in self.lines if (line["point"], line["seed"]) == (name, seed)],
            arrays=LazyArrays({"rounds": lambda: self.arrays["rounds"], **of_run}),
            places=(),
        )

    def history(self, point: int, name: str) -> np.ndarray | None:
        """Return an array [S, ...] of history.npz for a sweep point and all seeds, or None if it was not recorded.

        Raises:
          UserError: if the array cannot be read.
        """
        study, of_study = self.study_of(point)
        return study.arrays.get(f"{study.places[of_study]}/{name}")

    def has(self, point: int, name: str) -> bool:
        """Tell whether an array of history.npz was recorded for a sweep point, without reading it."""
        study, of_study = self.study_of(point)
        return f"{study.places[of_study]}/{name}" in study.arrays

    def first_seed(self, point: int, name: str) -> np.ndarray | None:
        """Return an array of history.npz for a sweep point and its first seed, or None if nothing was recorded."""
        return _first_seed(self, point, name)

    def heard(self, point: int) -> np.ndarray | None:
        """Return who heard whom in each round, [S, R, N, ceil(N/8)] bits, or None if it was not recorded.

        Where there is no record of its own, messages went over all links.
        """
        return self.history(point, "heard" if self.has(point, "heard") else "links")

    def to_xarray(self) -> "xr.Dataset":
        """Return all metrics, and the clients' data and kinds, as one xarray.Dataset.

        The axes are point, seed, round (of the evaluations) and client, as each metric needs them. Recorded positions
        have the axis each_round (from 0, before the first round) instead of round, and records of what happens in a
        round, such as links, the axis in_round (from 1). Sweep points may differ in the number of clients and in the
        metrics that they have, without a config.json also in the seeds. What a sweep point does not have is NaN;
        of the arrays that are no metrics it is False or 0 (is_mobile, reached, label_counts).
        """
        import xarray as xr

        attrs = {"name": str(self.manifest.get("name") or ""), "title": title_of(self.manifest)}
        return xr.Dataset({key: data_array(self, key) for key in self.keys()}, attrs=attrs)

    def array(self, metric: str, point: int | str = 0) -> np.ndarray:
        """Return the values of a metric of one sweep point, over its seeds (`seeds_of`) and evaluations.

        Args:
          metric: the name in history.npz, for example 'accuracy', [S, E, N], or 'mean_model_accuracy', [S, E]; or the
            name of the metric's declaration, such as 'bits' for 'bits_sent'.
          point: the index or the name of the sweep point.

        Raises:
          UserError: for an unknown name of a sweep point or metric; the message lists the known names.
        """
        p = self.index_of(point)
        key = self.key_of(metric, [name for name in self.keys() if self.has(p, name)])
        return self.arrays[f"{self.places[p]}/{key}"]

    def index_of(self, point: int | str) -> int:
        """Return the index of a sweep point, from its id or its index, which may count from the end (-1: the last).

        Raises:
          UserError: for an unknown id, or an index out of range; the message says what there is.
        """
        count = len(self.points)
        if isinstance(point, str):
            if point not in self.points:
                raise UserError(unknown_name("point", point, self.points))
            return self.points.index(point)
        if not -count <= point < count:
            last = f"0 to {count - 1}" if count > 1 else "0"
            raise UserError(f"the point is {point}; the study has {count} sweep points, with the indices {last}")
        return point % count

    def to_dataframe(self, per_client: bool = False) -> "pd.DataFrame":
        """Return a table in which every metric is a column.

        Args:
          per_client: False: a row for each sweep point, seed and evaluated round, with means over the clients, as in
            metrics.jsonl. True: a row for each client as well, with the metrics that have one number per client.
        """
        return _of_clients(self) if per_client else of_runs(self)

    def models(self, point: int | str = 0, seed: int | None = None, round: int | None = None) -> dict[str, Any]:
        """Return the models of the clients that a run has kept.

        Args:
          point: the index or the id of the sweep point.
          seed: the seed, one of ``results.seeds_of(point)``; None: the first one.
          round: the round of the models; None: the last one that is kept.

        Returns:
          {"params": ...}, and "batch_stats" if the model has batch statistics, as flax takes them. Each leaf is
          [N, ...], with a leading axis of clients. Lists of a tree are dictionaries with the keys "0", "1", ...

        Raises:
          UserError: if the study has kept no such models; the message says which there are.
        """
        return nested_tensors(read(file_of(self, point, seed, round)), OF_CLIENTS)

    def model(self, point: int | str = 0, seed: int | None = None, round: int | None = None) -> dict[str, Any]:
        """Return one model that represents a run: the algorithm's global model, or the mean of the clients' models.

        Args:
          point, seed, round: as in `models`.

        Returns:
          A tree as `models` returns it, without the axis of clients.

        Raises:
          UserError: as `models`.
        """
        tensors = read(file_of(self, point, seed, round))
        return nested_tensors(tensors, GLOBAL) or nested_tensors(client_mean(tensors), OF_CLIENTS)

    @property
    def plot(self) -> Any:
        """The figures of the study: ``results.plot.curves()``, ``results.plot.accuracy()``; printed, it lists them."""
        return VIEWS["plot"](self)

    def report(self, folder: str | Path | None = None, x: str = "") -> Path:
        """Write the tables, the figures and report.html.

        Args:
          folder: the folder for these files, which is made if it is absent. None: the workdir of the study.
          x: the x axis of the accuracy curves, as in `shown`.

        Returns:
          The path of report.html.

        Raises:
          UserError: if no folder is given and the study has no workdir, if the folder holds another study or cannot
            be written to, or if there is no such axis.
        """
        return VIEWS["report"](self, folder, x)

    def map(self, point: int | str = 0, seed: int | None = None) -> Any:
        """Return the map of a run, which plays where a notebook shows it. The arguments are those of `run_of`.

        Raises:
          UserError: for an unknown point or seed, or if the study has recorded nothing that a map shows.
        """
        return VIEWS["map"](self.run_of(point, seed))

    def _repr_html_(self) -> str:
        """Return the summary table for a notebook."""
        return VIEWS["table"](self)

    @cached_property
    def memo(self) -> dict[Any, Any]:
        """What `kept` functions have found."""
        return {}

    def __repr__(self) -> str:
        rounds = self.evaluations.rounds
        return (
            f"<Results of {self.manifest.get('name')!r}: {len(self.points)} points ({'; '.join(self.points)}), "
            f"{len(self.seeds)} seeds, {len(rounds)} evaluations until round {rounds[-1]}>"
        )


Result = TypeVar("Result")
Rest = ParamSpec("Rest")


def kept(found_in: Callable[Concatenate[Results, Rest], Result]) -> Callable[Concatenate[Results, Rest], Result]:
    """Return a function that keeps its results with the study, since several panels ask for the same ones."""

    @functools.wraps(found_in)
    def asked(study: Results, *args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        question = (found_in, args, tuple(kwargs.items()))
        if question not in study.memo:
            study.memo[question] = found_in(study, *args, **kwargs)
        return study.memo[question]

    return asked


@kept
def _first_seed(study: Results, point: int, name: str) -> np.ndarray | None:
    array = study.history(point, name)
    return None if array is None or not array[0].size else np.array(array[0])


def rounds_done(study: Results, point: int) -> int | None:
    """Return the number of rounds that the first seed has run; None if it was not recorded.

    It is smaller than the number of rounds of the study if the stop rule has ended the run.
    """
    found = study.first_seed(point, "rounds_done")
    return None if found is None else int(found[-1])


def rounds_counted(study: Results, point: int) -> int | None:
    """Return the number of rounds that the statistics are of: those done, but none after the round of the results."""
    done, at = rounds_done(study, point), study.summary.get("round")
    return at if done is None else done if at is None else min(done, at)


def dims_of(results: Results, key: str) -> tuple[str, ...]:
    """Return the names of the axes of an array of history.npz, over all sweep points."""
    if key in FACTS:
        return ("point", "seed", *FACTS[key])
    values = next(iter(_by_point(results, key).values()))
    shape = results.declared[key].shape
    by_round = tuple(shape[:1]) == (BY_ROUND,)
    axis = "round" if not by_round else EVENTS if values.shape[1] == results.arrays["rounds"][-1] else STATES
    return ("point", "seed", axis, *_own_axes(key, shape[by_round:], values.ndim - 2))


def _own_axes(key: str, shape: Sequence[str | int], count: int) -> list[str]:
    """Name the axes of one evaluation. An axis without a name gets that of the metric, 'position_axis'.

    If two axes have the same name, as in a matrix of clients, the second one is 'client_2'.

    Args:
      key: the key of the metric.
      shape: the declared axes. Those of the files may be fewer: two words of bits become one number.
      count: the number of axes in the files.
    """
    names = [_NAMES.get(shape[k] if k < len(shape) else 0, f"{key}_axis") for k in range(count)]
    before = [names[:k].count(name) for k, name in enumerate(names)]
    return [f"{name}_{same + 1}" if same else name for name, same in zip(names, before)]


def data_array(results: Results, key: str) -> "xr.DataArray":
    """Return an array of history.npz over all sweep points, with named axes and their coordinates.

    What a sweep point does not have is NaN; of the arrays in `FACTS` it is False or 0.
    """
    import xarray as xr

    values, dims = _by_point(results, key), dims_of(results, key)
    label, unit = _label_and_unit(results, key)
    data = _stacked(results, values, key in FACTS)
    coords: dict[str, Any] = {
        "point": results.points,
        "seed": results.seeds,
        "round": results.arrays["rounds"],
        **{n: np.arange(size) + (n == EVENTS) for n, size in zip(dims[2:], data.shape[2:]) if n != "round"},
    }
    attrs = {"long_name": label} | ({"units": unit} if unit else {})
    return xr.DataArray(data, {name: coords[name] for name in dims}, dims, key, attrs)


def _by_point(results: Results, key: str) -> dict[int, np.ndarray]:
    """Return the arrays of a key by the index of the sweep point, for the points that have it."""
    found = {p: _of_counted(results, p, key) for p in range(len(results.points))}
    return {p: values for p, values in found.items() if values is not None}


def _of_counted(results: Results, p: int, key: str) -> np.ndarray | None:
    """Return an array of a sweep point. Scores are NaN for the clients that are in no mean, such as attackers."""
    values, weights = results.history(p, key), results.history(p, WEIGHT) if key in _SCORES else None
    return values if values is None or weights is None else np.where(weights > 0, values, np.float32(np.nan))


def _stacked(results: Results, values: Mapping[int, np.ndarray], is_fact: bool) -> np.ndarray:
    """Stack the arrays of the sweep points, [point, seed, ...], filled up to the largest size of each axis.

    A row stands at the place of its seed in ``results.seeds``.
    """
    arrays, count, seeds = list(values.values()), len(results.points), results.seeds
    same_seeds = all(results.seeds_of(p) == seeds for p in values)
    if same_seeds and len(arrays) == count and len({of_point.shape for of_point in arrays}) == 1:
        return np.stack(arrays)
    kind = np.result_type(*arrays)
    kind = kind if is_fact else np.result_type(kind, np.float32)  # NaN needs a float: float64 holds any int32
    sizes = np.max([of_point.shape[1:] for of_point in arrays], axis=0).astype(int)  # of one without axes as well
    data = np.full((count, len(seeds), *sizes), 0 if is_fact else np.nan, kind)
    for p, of_point in values.items():
        rows = [seeds.index(seed) for seed in results.seeds_of(p)]
        data[p][np.ix_(rows, *map(range, of_point.shape[1:]))] = of_point
    return data


def _label_and_unit(results: Results, key: str) -> tuple[str, str]:
    """Return the words and the unit of an array. A scaled metric's title names the scaled unit, so it is not used."""
    shown, words = results.declared.get(key), spaced(key)
    if shown is None:
        return FACT_LABELS.get(key, words), ""
    label = shown.title.removesuffix(f" ({shown.unit})") if shown.scale == 1 else words
    return label, shown.unit


def of_runs(results: Results) -> "pd.DataFrame":
    """Return a row for each sweep point, seed and evaluated round, with the entries of metrics.jsonl as columns.

    The swept settings are columns too, by their paths, after that of the point. A metric that was not measured is NaN.
    """
    import pandas as pd

    frame = pd.DataFrame(results.lines)
    for path, values in reversed(_settings(results).items()):
        frame.insert(frame.columns.get_loc("point") + 1, path, frame["point"].map(values))
    for column in frame.columns.difference(NOT_METRICS):
        if frame[column].dtype == object:  # null, and infinity as the text "inf"
            frame[column] = frame[column].astype(float)
    return frame


def _of_clients(results: Results) -> "pd.DataFrame":
    """Return a row for each sweep point, seed, evaluated round and client, with the metrics of clients as columns.

    A metric that a sweep point does not have is NaN.
    """
    import pandas as pd
    import xarray as xr

    swept, axes = _settings(results), ("seed", "round", "client")
    columns = [key for key in results if key not in FACTS and dims_of(results, key) == ("point", *axes)]
    frames = []
    for p, point in enumerate(results.points):
        found = {key: _of_counted(results, p, key) for key in columns if results.has(p, key)}
        of_point: dict[str, Any] = {"is_mobile": (("seed", "client"), results.array("is_mobile", p))}
        of_point |= {key: (axes, values) for key, values in found.items()}
        rounds = results.arrays["rounds"].astype(np.int64)  # as in the other table
        frame = xr.Dataset(of_point, {"seed": results.seeds_of(p), "round": rounds}).to_dataframe(axes).reset_index()
        frames.append(frame.assign(point=point, **{path: values[point] for path, values in swept.items()}))
    return pd.concat(frames, ignore_index=True)[["point", *swept, *axes, "is_mobile", *columns]]


def _settings(results: Results) -> dict[str, dict[str, Any]]:
    """Return the value of each swept setting by its path and by the sweep point. Files have infinity as a text."""
    overrides = {point["id"]: point.get("overrides") or {} for point in results.outcomes}
    paths = dict.fromkeys(path for of_point in overrides.values() for path in of_point)
    found = {}
    for path in paths:
        values = {name: of_point.get(path) for name, of_point in overrides.items()}
        numbers = all(value in ("inf", "-inf") or isinstance(value, int | float) for value in values.values())
        infinite = numbers and any(isinstance(value, str) for value in values.values())
        found[path] = {name: parsed_number(value) for name, value in values.items()} if infinite else values
    return found


def _seed_of(results: Results, point: int, seed: int | None) -> int:
    """Return a seed of a sweep point; None: the first one. Another one is a `UserError`."""
    known = results.seeds_of(point)
    if seed is not None and seed not in known:
        raise UserError(f"the seed is {seed!r}; the study has {_listed(known)}")
    return known[0] if seed is None else seed


def file_of(results: Results, point: int | str, seed: int | None, at_round: int | None) -> Path:
    """Return the file of a run's models.

    Args:
      results: the results.
      point: the index or the id of the sweep point.
      seed: the seed; None: the first one.
      at_round: the round of the models; None: the last one that is kept.

    Raises:
      UserError: if the study has kept no such models; the message says which there are.
    """
    index = results.index_of(point)
    seed = _seed_of(results, index, seed)
    save = results.config.get("save") or ""
    if not save:
        raise UserError("the study has kept no models: its field save is ''; with save=final it keeps the last ones")
    if results.workdir is None:
        raise UserError("the study has no workdir, and its models are in files; run it with a workdir")
    runs = {(results.manifest["points"][p]["id"], s): name for p, s, name in runs_in(results.manifest)}
    of_rounds = models_of(results.workdir, runs[results.points[index], seed])
    if not of_rounds:
        raise UserError(f"{results.workdir}: the file of the models of {results.points[index]!r}, seed {seed}, is gone")
    if at_round is not None and at_round not in of_rounds:
        raise UserError(f"the round is {at_round!r}; with save={save} those of round {_listed(of_rounds)} are kept")
    return of_rounds[max(of_rounds) if at_round is None else at_round]


def models_of(workdir: Path, run: str) -> dict[int, Path]:
    """Return the files of the models that a run has kept, by their round.

    With ``save=every:K``, a run that went on after its end has the models of its first rounds under its earlier names.
    """
    found = files_of(workdir, run)
    header = RunRecord(run_path(workdir, run)).header
    if str(header["config"].get("save")).startswith("every"):
        for earlier in header["goes_on_from"]:
            found = files_of(workdir, earlier) | found
    return found


def _listed(numbers: Iterable[int]) -> str:
    """List numbers in order, at most ten of them.

    >>> _listed([0, 2, 1])
    '0, 1, 2'
    """
    shown = sorted(numbers)
    return ", ".join(map(str, shown if len(shown) <= 10 else [*shown[:5], "...", *shown[-4:]]))


def write_views(workdir: Path, manifest: Mapping[str, Any]) -> Results:
    """Write metrics.jsonl, summary.json, history.npz and at last config.json of a study whose runs are all there.

    The caller has locked the workdir.

    Args:
      workdir: The folder of the study, with the records of its runs.
      manifest: The content of its config.json. How the study was made is taken from the records.

    Returns:
      The results.

    Raises:
      UserError: If a record is absent or damaged.
      DiskError: If a file cannot be written.
    """
    records = read_records(workdir, manifest)
    every = [record for of_point in records for record in of_point]
    made = joined_provenance([record.header["made"] for record in every])
    about = {name: value for name, value in manifest.items() if name != "parts"} | made | {"status": "finished"}
    results = Results.of_records(about, records, workdir)
    disk.write_text(workdir / METRICS_FILE, "".join(json.dumps(line) + "\n" for line in results.lines))
    write_json(workdir / "summary.json", results.summary)
    write_arrays(workdir / "history.npz", results.arrays, sum(record.nbytes for record in every))
    write_json(workdir / CONFIG, results.manifest)
    return results


def list_files(workdir: Path, made: Iterable[Path]) -> None:
    """Note in config.json that a study has written files, beside those that each study writes.

    ``--overwrite`` removes no file that is not noted. The caller has locked the workdir.

    Args:
      workdir: The folder of the study.
      made: The files.
    """
    manifest = read_config(workdir)
    names = sorted({*manifest.get("files", ()), *(str(path.relative_to(workdir)) for path in made)})
    if names != manifest.get("files"):
        write_json(workdir / CONFIG, manifest | {"files": names})
