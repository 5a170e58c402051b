"""The class `Results`: everything that a finished study has measured."""

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.metric import Shown
from mdfl_jax.report.read import ROUNDS, Run, declared, make_run
from mdfl_jax.results import named, tables
from mdfl_jax.results.saved import KeptModels
from mdfl_jax.storage.checksums import check_texts
from mdfl_jax.storage.study_files import no_streets, read_json, read_results, read_streets

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from mdfl_jax.report.plots import Plots


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Results(KeptModels):
    """The results of a finished study, read from its files.

    ``results["loss"]`` is the metric 'loss' as an array with named axes, and ``results.plot`` makes figures.

    Attributes:
      manifest: the content of config.json: name, configuration, seeds, versions, devices and times.
      summary: the content of summary.json. For each sweep point it has a dictionary with means over the seeds, 95 %
        intervals and paired differences.
      lines: the content of metrics.jsonl, one dictionary for each evaluation of each run.
      arrays: the arrays of history.npz by name: 'rounds' [E], and for the p-th sweep point 'p/accuracy' [S, E, N] and
        so on (docs/outputs.md).
      workdir: the folder of the study; None if it was a temporary one.
      streets: [K, 4] the streets of a trace's map; [0, 4] for none.
    """

    manifest: dict[str, Any]
    summary: dict[str, Any]
    lines: list[dict[str, Any]]
    arrays: dict[str, np.ndarray]
    workdir: Path | None
    streets: np.ndarray = dataclasses.field(default_factory=no_streets)

    @classmethod
    def load(cls, workdir: str | Path) -> "Results":
        """Reads the results of a finished study.

        Args:
          workdir: the folder of the study.

        Raises:
          UserError: if the folder holds no finished study, or if a file cannot be read.
        """
        folder = Path(workdir)
        manifest = read_json(folder / "config.json", ("config", "seeds", "status"))
        if manifest["status"] != "finished":
            raise UserError(f"{folder}: the study there is not finished")
        summary, lines, arrays = read_results(folder)
        check_texts(manifest, folder)
        return cls(manifest, summary, lines, dict(arrays), folder, read_streets(folder))

    def without_workdir(self) -> "Results":
        """Returns the same results without a folder, since a temporary folder is removed."""
        return dataclasses.replace(self, workdir=None)

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        return self.manifest["config"]

    @property
    def points(self) -> list[str]:
        """The ids of the sweep points, in order."""
        return [point["id"] for point in self.summary["points"]]

    @property
    def seeds(self) -> list[int]:
        """The seeds of the study. A sweep point of a part of a study may have fewer (`seeds_of`)."""
        return self.manifest["seeds"]

    def seeds_of(self, point: int | str) -> list[int]:
        """Returns the seeds of a sweep point, by its index or its id, in the order of the first axis of its arrays.

        Raises:
          UserError: for an unknown sweep point; the message lists the known ones.
        """
        return list(self.summary["points"][self.index_of(point)].get("seeds") or self.seeds)

    @cached_property
    def declared(self) -> dict[str, Shown]:
        """The declarations of metrics by their key in history.npz: the built-in ones and the study's own."""
        return {shown.key: shown for shown in declared(self.summary)}

    @cached_property
    def metrics(self) -> dict[str, named.MetricInfo]:
        """The recorded metrics: label, unit, and the names and sizes of the axes of ``results[name]``."""
        return {key: named.describe(self, key) for key in self.keys() if key not in named.FACTS}

    def keys(self) -> list[str]:
        """Returns the names of the arrays that at least one sweep point has."""
        return list(dict.fromkeys(name.partition("/")[2] for name in self.arrays if "/" in name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def key_of(self, metric: str) -> str:
        """Returns the name of a metric in history.npz. The name of its declaration, such as 'bits', is known as well.

        Raises:
          UserError: for a metric that was not recorded; the message lists the recorded ones.
        """
        key = next((shown.key for shown in self.declared.values() if shown.name == metric), metric)
        if key not in self.keys():
            raise UserError(unknown_name("metric", metric, self.keys()))
        return key

    def __getitem__(self, metric: str) -> "xr.DataArray":
        """Returns the values of a metric of all sweep points, as an array with named axes (`to_xarray`)."""
        return named.data_array(self, self.key_of(metric))

    @property
    def accuracy(self) -> "xr.DataArray":
        """The test accuracy, in [0, 1], with the axes point, seed, round and client."""
        return self["accuracy"]

    @property
    def loss(self) -> "xr.DataArray":
        """The test loss, with the axes point, seed, round and client."""
        return self["loss"]

    def to_xarray(self) -> "xr.Dataset":
        """Returns all metrics, and the clients' data and kinds, as one xarray.Dataset.

        The axes are point, seed, round (of the evaluations) and client, as each metric needs them. Recorded positions
        have the axis each_round (from 0, before the first round) instead of round, and records of what happens in a
        round, such as links, the axis in_round (from 1). Sweep points may differ in the number of clients and in the
        metrics that they have, those of a part of a study also in the seeds. What a sweep point does not have is NaN;
        of the arrays that are no metrics it is False or 0 (is_mobile, reached, label_counts).
        """
        return named.dataset(self)

    def array(self, metric: str, point: int | str = 0) -> np.ndarray:
        """Returns the values of a metric of one sweep point, over its seeds (`seeds_of`) and evaluations.

        Args:
          metric: the name in history.npz, for example 'accuracy', [S, E, N], or 'mean_model_accuracy', [S, E]; or the
            name of the metric's declaration, such as 'bits' for 'bits_sent'.
          point: the index or the name of the sweep point.

        Raises:
          UserError: for an unknown name of a sweep point or metric; the message lists the known names.
        """
        index = self.index_of(point)
        key = next((shown.key for shown in self.declared.values() if shown.name == metric), metric)
        if f"{index}/{key}" not in self.arrays:
            known = [name.partition("/")[2] for name in self.arrays if name.startswith(f"{index}/")]
            raise UserError(unknown_name("metric", metric, known))
        return self.arrays[f"{index}/{key}"]

    def index_of(self, point: int | str) -> int:
        """Returns the index of a sweep point, from its id or its index, which may count from the end (-1: the last).

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
        """Returns a table in which every metric is a column.

        Args:
          per_client: False: a row for each sweep point, seed and evaluated round, with means over the clients, as in
            metrics.jsonl. True: a row for each client as well, with the metrics that have one number per client.
        """
        return tables.of_clients(self) if per_client else tables.of_runs(self)

    @property
    def plot(self) -> "Plots":
        """The figures of the study: ``results.plot.curves()``, ``results.plot.accuracy()``; printed, it lists them."""
        from mdfl_jax.report.plots import Plots  # Matplotlib takes half a second to import

        return Plots(self)

    def report(self, folder: str | Path | None = None, x: str = "") -> Path:
        """Writes the tables, the figures and report.html.

        Args:
          folder: the folder for these files, which is made if it is absent. None: the workdir of the study.
          x: the x axis of the accuracy curves: "round", or a metric declared to be an axis, such as "messages" or
            "bits"; empty: the axis that the study's configuration names.

        Returns:
          The path of report.html.

        Raises:
          UserError: if no folder is given and the study has no workdir, if the folder holds another study or cannot
            be written to, or if there is no such axis.
        """
        from mdfl_jax.report.page import write

        if folder is None and self.workdir is None:
            raise UserError("report: the study has no workdir; give a folder: results.report('runs/report')")
        target = Path(folder or self.workdir or "")
        if target != self.workdir and (target / "config.json").exists():
            raise UserError(f"report: folder is {str(target)!r}, which holds another study; choose another folder")
        found = self.as_run(x, target)
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"report: folder is {str(target)!r}; it cannot be made: {error.strerror}") from None
        return write(found)

    def as_run(self, x: str = "", folder: Path | None = None) -> Run:
        """Returns the results in the form that the report draws.

        Args:
          x: as in `report`.
          folder: the folder to which a report is written.

        Raises:
          UserError: if there is no such axis.
        """
        shown, home = self.declared.get(x), folder or self.workdir or Path()
        axis = ROUNDS if x == "round" else shown.name if shown else x
        return make_run(home, self.manifest, self.summary, self.lines, self.arrays, self.streets, axis)

    def __repr__(self) -> str:
        rounds = self.arrays["rounds"]
        return (
            f"<Results of {self.manifest.get('name')!r}: {len(self.points)} points ({'; '.join(self.points)}), "
            f"{len(self.seeds)} seeds, {len(rounds)} evaluations until round {rounds[-1]}>"
        )

    def _repr_html_(self) -> str:
        """Returns the summary table for a notebook."""
        return tables.as_html(self)
