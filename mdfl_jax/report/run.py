"""A study as the report sees it (`Run`), of one workdir or of several that are compared."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from mdfl_jax.core.metric import Shown
from mdfl_jax.core.outcomes import selected_fields
from mdfl_jax.metrics import AXIS
from mdfl_jax.report.curve import ROUNDS, Curve
from mdfl_jax.report.settings import Axis, sweep_axes, value_of
from mdfl_jax.results.results import declared
from mdfl_jax.storage.study_files import no_streets

Result = TypeVar("Result")
Rest = ParamSpec("Rest")


@dataclass(frozen=True, eq=False)
class Run:
    """The content of one workdir that the report needs, or of several that are compared (`mdfl_jax.report.compare`).

    A comparison has no arrays of its own: those of a sweep point are in its study.
    """

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
    streets: np.ndarray = dataclasses.field(default_factory=no_streets)  # [K, 4] those of the map, [0, 4] for none
    all_points: Sequence[dict[str, Any]] = ()  # the sweep points of summary.json, those too that `select` left out
    studies: tuple["Run", ...] = ()  # the studies of a comparison; none if this is one study
    parts: tuple[tuple[int, int], ...] = ()  # of a comparison: the study and its sweep point, for each sweep point
    results: dict[Any, Any] = dataclasses.field(default_factory=dict, init=False, repr=False)  # of `kept` functions

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
    def x_title(self) -> str:
        """The label of the x axis."""
        return "round" if self.x_axis == ROUNDS else axes_of(self.summary)[self.x_axis].title

    @property
    def x_scale(self) -> float:
        """The number by which the values along the x axis are divided."""
        return 1.0 if self.x_axis == ROUNDS else axes_of(self.summary)[self.x_axis].scale

    def study_of(self, point: int) -> tuple["Run", int]:
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
        found = self.curves[self.points[point]["id"]].seeds
        written = self.points[point].get("seeds") or self.manifest["seeds"]
        return tuple(written) if sorted(written) == sorted(found) else found

    def end(self, point: int) -> int:
        """Return the index of the evaluation that a sweep point's results are of: the summary's round, or the last."""
        found = np.flatnonzero(self.curves[self.points[point]["id"]].rounds == self.summary.get("round"))
        return int(found[0]) if len(found) else -1

    def array(self, point: int, name: str) -> np.ndarray | None:
        """Return an array of history.npz for a sweep point and its first seed, or None if it was not recorded."""
        study, of_study = self.study_of(point)
        return study.first_seed.get(f"{of_study}/{name}")

    def only(self, points: Sequence[int]) -> "Run":
        """Return the same run with some of its sweep points, given by index."""
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


def kept(found_in: Callable[Concatenate[Run, Rest], Result]) -> Callable[Concatenate[Run, Rest], Result]:
    """Make a function of a study keep its results with the study, since several panels ask for the same."""

    @functools.wraps(found_in)
    def asked(run: Run, *args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        question = (found_in, args, tuple(kwargs.items()))
        if question not in run.results:
            run.results[question] = found_in(run, *args, **kwargs)
        return run.results[question]

    return asked


def axes_of(summary: Mapping[str, Any]) -> dict[str, Shown]:
    """Return the metrics that can be the x axis of a curve, by name."""
    return {metric.name: metric for metric in declared(summary) if AXIS in metric.where}
