"""The declaration of a metric. This file does not import JAX, since the report reads declarations without JAX."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

# Axes of a shape: N clients; ceil(N / 8) bytes, a bit for each client; C labels; the rounds since the last evaluation.
CLIENTS, CLIENT_BYTES, CLASSES, ROUNDS = "clients", "client_bytes", "classes", "rounds"
SCHEMA = 1  # the version of the format of a study's files
HOLDS, UNKNOWN, NOTHING = None, math.nan, 0.0  # the value of a metric after the stop rule has ended the run
TABLE, AXIS, CURVE, TARGET = "table", "axis", "curve", "target"  # where the report shows a metric
GROUPS = ("mobile", "other")


def mean(values: np.ndarray, weights: np.ndarray | None = None) -> Any:
    """Return the mean of all values, computed in double precision; with weights [N] over the first axis if given."""
    if weights is None:
        return values.mean(dtype=np.float64)
    return np.average(values.astype(np.float64), axis=0, weights=weights).mean()


def _itself(values: np.ndarray) -> np.ndarray:
    return values


class Shown(NamedTuple):
    """The description of a metric for the report. summary.json contains it for metrics that are not built in.

    Attributes:
      name: the name of the metric.
      key: the metric's key in metrics.jsonl and summary.json.
      title: the text on an axis and above a column.
      scale: the values are divided by this number before they are shown.
      where: the places in the report, some of `TABLE`, `AXIS`, `CURVE` and `TARGET`.
      unit: the unit of the values, before they are divided.
      shape: the declared shape.
      summary: whether summary.json has the value at the end.
    """

    name: str
    key: str
    title: str
    scale: float
    where: tuple[str, ...]
    unit: str = ""
    shape: tuple[str | int, ...] = ()
    summary: bool = True


class Display(NamedTuple):
    """How files, tables and figures show a metric.

    Attributes:
      label: the text on an axis and above a column; by default the name with the unit.
      unit: the unit of the values.
      scale: the values are divided by this number before they are shown.
      shown: where the report shows the metric: `TABLE`, as a column with the value in summary.json; `AXIS`, as a choice
        for the x axis of the accuracy; `CURVE`, as a curve over the rounds; `TARGET`, as a column with the value at
        the first evaluation whose accuracy reaches the target. summary.json has this value as 'key_to_target'.
      summary: whether summary.json contains the value at the end, with mean, deviation and 95 % interval over seeds.
    """

    label: str = ""
    unit: str = ""
    scale: float = 1.0
    shown: frozenset[str] | set[str] = frozenset()
    summary: bool = True


class Reduction(NamedTuple):
    """How the values of one evaluation become the numbers of a line of metrics.jsonl.

    Attributes:
      on_host: a function that converts the NumPy values of any number of evaluations, [..., *shape], before they are
        written.
      over_clients: a function from the values of one evaluation [*shape] to the number in metrics.jsonl and
        summary.json. It is not used if the shape is ().
      more: further numbers of each line of metrics.jsonl: key_NAME is the function NAME of the values.
      by_group: whether metrics.jsonl also contains the means of the mobile clients and of the others.
    """

    on_host: Callable[[np.ndarray], np.ndarray] = _itself
    over_clients: Callable[..., Any] = mean
    more: Mapping[str, Callable[..., Any]] = MappingProxyType({})
    by_group: bool = False


class RoundRows(NamedTuple):
    """How a metric with one value for each round is kept.

    Attributes:
      dtype: the type of the values of a metric that has R rows.
      record: whether the metric is a record of the rounds, for maps and contacts. A simulation keeps records only if
        its schedule asks for them and they are small enough (`mdfl_jax.metrics.evaluation`).
    """

    dtype: str = "float32"
    record: bool = False


class Scores(NamedTuple):
    """Which models a metric evaluates.

    Attributes:
      needs: the fields of `mdfl_jax.core.types.Scoring` that the metric reads and that a task may lack.
      sampled: whether the values follow from the scores of the evaluated clients (`Evaluation.score`). If only a sample
        is evaluated (`mdfl_jax.metrics.sampling`), they are NaN for the other clients. ``over_clients`` and the
        functions of ``more`` then get the values of the sample, [K, ...], and the weights of its clients, [K].
      of_all: whether measuring evaluates the models of all clients. The metric is then refused if a sample is
        evaluated.
    """

    needs: tuple[str, ...] = ()
    sampled: bool = False
    of_all: bool = False


@dataclass(frozen=True, eq=False, init=False)
class Metric:
    """The declaration of a metric: ``Metric("loss", lambda at: at.score.loss, HOLDS, label="test loss")``.

    The fields of `Display`, `Reduction`, `RoundRows` and `Scores` are arguments by their own names, as ``label`` is.

    Attributes:
      name: an identifier. A history has the metric as an attribute of this name.
      measure: (Evaluation) -> the value, an array of ``shape``. It is traced into the compiled program.
      still: the value at evaluations after the stop rule has ended the run: `HOLDS`, the last value; `UNKNOWN`, not a
        number; `NOTHING`, zero; or any other number. There is no default, so every declaration must choose. For a
        metric with one value for each round it also decides the rows (see ``each_round``).
      shape: the shape for one evaluation of one run. Its axes are `CLIENTS`, `CLIENT_BYTES`, `CLASSES` (not with
        ``each_round``), `ROUNDS` (as the first axis only) or whole numbers; () is a scalar. A metric of shape (ROUNDS,
        ...) has one value for each round; only history.npz contains it.
      each_round: (RoundView) -> an array of ``shape``. These arrays are added up over the rounds since the last
        evaluation (`Evaluation.total`, `Evaluation.mean_over_rounds`). If the shape is (ROUNDS, ...), the function
        returns the value of one round, without this axis. The values are stacked, a row for each round
        (`Evaluation.by_round`). With ``still`` `HOLDS` the function reads only the state after the round
        (`RoundView.state`), and the state before the first round has a row, too: R + 1 rows. With a number for
        ``still`` there are R rows, and this number fills the rows of rounds after a stop.
      key: the name in files, if it differs from ``name``.
      optional: whether a run may lack the metric. If it is NaN at all evaluations of a run, or in all rounds, it is
        left out of history.npz and is null in summary.json.
      on_request: whether only studies whose field ``metrics`` names the metric measure it. This is for slow metrics.
      display: how it is shown.
      reduction: how it becomes one number.
      rows: how a metric with one value for each round is kept.
      scores: which models it evaluates.
    """

    name: str
    measure: Callable[[Any], Any]
    still: float | None
    shape: tuple[str | int, ...] = (CLIENTS,)
    each_round: Callable[[Any], Any] | None = None
    key: str = ""
    optional: bool = False
    on_request: bool = False
    display: Display = field(default=Display())
    reduction: Reduction = field(default=Reduction())
    rows: RoundRows = field(default=RoundRows())
    scores: Scores = field(default=Scores())

    def __init__(
        self,
        name: str,
        measure: Callable[[Any], Any],
        still: float | None,
        shape: tuple[str | int, ...] = (CLIENTS,),
        **declared: Any,
    ):
        values = {"name": name, "measure": measure, "still": still, "shape": shape, **declared}
        for part in fields(self):
            value = values.pop(part.name, part.default)
            if isinstance(value, Display | Reduction | RoundRows | Scores):
                value = value._replace(**{of: values.pop(of) for of in value._fields if of in values})
            object.__setattr__(self, part.name, value)
        if values:
            raise TypeError(f"the metric {name!r} is declared with {', '.join(values)}, which no metric has")
        # A decorated function has these attributes too. The registry reads from them where the metric comes from.
        for attribute in ("__module__", "__doc__"):
            object.__setattr__(self, attribute, getattr(measure, attribute, None))

    @property
    def in_files(self) -> str:
        """The metric's key in files."""
        return self.key or self.name

    @property
    def by_round(self) -> bool:
        """Whether the metric has one value per round, instead of one per evaluation."""
        return self.shape[:1] == (ROUNDS,)

    @property
    def line_keys(self) -> list[str]:
        """The metric's keys in a line of metrics.jsonl; none if the metric has one value per round."""
        further = [*self.reduction.more, *(GROUPS if self.reduction.by_group else ())]
        return [] if self.by_round else [self.in_files, *(f"{self.in_files}_{name}" for name in further)]

    @property
    def summary_keys(self) -> list[str]:
        """The metric's keys in summary.json besides ``in_files``; none unless it is shown at the target."""
        return (
            [f"{self.in_files}_to_target", f"{self.in_files}_to_target_per_seed"]
            if TARGET in self.display.shown
            else []
        )

    @property
    def described(self) -> Shown:
        """The description of the metric for the report."""
        spaced, (label, unit, scale, shown, summary) = self.name.replace("_", " "), self.display
        title = label or (f"{spaced} ({unit})" if unit else spaced)
        return Shown(self.name, self.in_files, title, scale, tuple(sorted(shown)), unit, self.shape, summary)

    def dims(self, num_clients: int, num_rounds: int = 0, num_classes: int = 0) -> tuple[int, ...]:
        """Return the shape as numbers, with N clients, C labels and the given number of rounds."""
        axes = {CLIENTS: num_clients, CLIENT_BYTES: -(-num_clients // 8), CLASSES: num_classes, ROUNDS: num_rounds}
        return tuple(axes[axis] if isinstance(axis, str) else axis for axis in self.shape)

    def unknown(self, values: np.ndarray) -> bool:
        """Tell from the values of one run [E, ...] whether an optional metric was not measured (``optional``)."""
        return bool(np.isnan(values).all())

    def number(self, values: np.ndarray, weights: np.ndarray | None = None) -> Any:
        """Reduce the values [*shape] of one evaluation, as ``on_host`` returns them, to one number.

        Args:
          values: the values.
          weights: [N] the weights of the clients, 0 for those that were not evaluated; None: all were.
        """
        return self.reduced(self.reduction.over_clients, values, weights) if self.shape else values

    def reduced(self, function: Callable[..., Any], values: np.ndarray, weights: np.ndarray | None) -> Any:
        """Apply ``over_clients`` or a function of ``more`` to the values of one evaluation; see `number`."""
        if weights is None or not self.scores.sampled:
            return function(values)
        return function(values[weights > 0], weights[weights > 0])


def record(name: str, each_round: Callable[[Any], Any], still: float, **declared: Any) -> Metric:
    """Declare a record of the rounds: a metric whose measured value is its rows (`RoundRows.record`).

    Args:
      name: the name of the metric.
      each_round: (RoundView) -> the value of one round.
      still: the value in the place of a round that the stop rule left out.
      **declared: further arguments of `Metric`; the shape is [rounds, N] by default.
    """
    usual = {"shape": (ROUNDS, CLIENTS), "record": True, "summary": False}
    return Metric(name, lambda at: at.by_round(name), still, each_round=each_round, **{**usual, **declared})
