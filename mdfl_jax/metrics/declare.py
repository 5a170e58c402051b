"""What the declaration of a metric says. Nothing here imports JAX, since the report reads declarations too."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

CLIENTS, ROUNDS = "clients", "rounds"  # axes of a shape: the N clients; the rounds since the last evaluation
SCHEMA = 1  # of the files of a study
HOLDS, UNKNOWN, NOTHING = None, math.nan, 0.0  # what a metric is while a run stands still
TABLE, AXIS, CURVE = "table", "axis", "curve"  # where the report shows it
GROUPS = ("mobile", "other")


def mean(values: np.ndarray) -> Any:
    """The mean of all values, taken in double precision."""
    return values.mean(dtype=np.float64)


def _itself(values: np.ndarray) -> np.ndarray:
    return values


class Shown(NamedTuple):
    """What the report must know of a metric; summary.json holds it for those that are not built in.

    Attributes:
      name: of the metric.
      key: its key in metrics.jsonl and summary.json.
      title: its text at an axis and over a column.
      scale: what its values are divided by where they are shown.
      where: of `TABLE`, `AXIS` and `CURVE`.
    """

    name: str
    key: str
    title: str
    scale: float
    where: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric.

    Attributes:
      name: an identifier; the metric's attribute in a history.
      measure: (Evaluation) -> the value, an array of ``shape``. It is traced into the compiled program.
      still: what the metric is at an evaluation before which a run did no round, since the stop rule had ended it:
        `HOLDS`, its last value; `UNKNOWN`, not a number; `NOTHING`, zero; or any other number. There is no default, so
        that nobody forgets it.
      shape: of one evaluation of one run: `CLIENTS`, `ROUNDS` (as the first axis only) or whole numbers; () is one
        number. A metric of shape (ROUNDS, ...) is in history.npz alone.
      unit: of the values.
      label: text at an axis and over a column; where left out, the name with its unit.
      key: name in files, where it is not ``name``.
      each_round: (RoundView) -> an array of ``shape``; these are added up over the rounds since the last evaluation
        (`Evaluation.total`, `Evaluation.mean_over_rounds`).
      on_host: applied to the NumPy values of any number of evaluations, [..., *shape], before they are written.
      over_clients: from the values of one evaluation [*shape] to the one number that metrics.jsonl and summary.json
        tell. Without effect where the shape is ().
      more: further numbers of a line of metrics.jsonl: 'key_NAME' is the function of that name of the values.
      by_group: metrics.jsonl also tells the means of the mobile clients and of the others.
      optional: NaN before the first round says that the task has no such metric: it is then left out of history.npz,
        and null in summary.json.
      summary: summary.json tells the value at the end, with mean, deviation and 95 % interval over the seeds.
      shown: where the report shows it: `TABLE`, a column (of the value in summary.json); `AXIS`, choosable as the x
        axis of the accuracy; `CURVE`, drawn against the rounds.
      scale: what the values are divided by where they are shown.
    """

    name: str
    measure: Callable[[Any], Any]
    still: float | None
    shape: tuple[str | int, ...] = (CLIENTS,)
    unit: str = ""
    label: str = ""
    key: str = ""
    each_round: Callable[[Any], Any] | None = None
    on_host: Callable[[np.ndarray], np.ndarray] = _itself
    over_clients: Callable[[np.ndarray], Any] = mean
    more: Mapping[str, Callable[[np.ndarray], Any]] = field(default_factory=dict)
    by_group: bool = False
    optional: bool = False
    summary: bool = True
    shown: frozenset[str] | set[str] = frozenset()
    scale: float = 1.0

    def __post_init__(self) -> None:
        # As a decorated function has them, so that the registry tells whose it is.
        for attribute in ("__module__", "__doc__"):
            object.__setattr__(self, attribute, getattr(self.measure, attribute, None))

    @property
    def in_files(self) -> str:
        """Its key in the files."""
        return self.key or self.name

    @property
    def by_round(self) -> bool:
        """Whether it has a value a round, not one an evaluation."""
        return self.shape[:1] == (ROUNDS,)

    @property
    def line_keys(self) -> list[str]:
        """Its keys in a line of metrics.jsonl."""
        further = [*self.more, *(GROUPS if self.by_group else ())]
        return [] if self.by_round else [self.in_files, *(f"{self.in_files}_{name}" for name in further)]

    @property
    def described(self) -> Shown:
        """What the report must know."""
        spaced = self.name.replace("_", " ")
        title = self.label or (f"{spaced} ({self.unit})" if self.unit else spaced)
        return Shown(self.name, self.in_files, title, self.scale, tuple(sorted(self.shown)))

    def dims(self, num_clients: int, num_rounds: int = 0) -> tuple[int, ...]:
        """The shape in numbers."""
        axes = {CLIENTS: num_clients, ROUNDS: num_rounds}
        return tuple(axes[axis] if isinstance(axis, str) else axis for axis in self.shape)

    def number(self, values: np.ndarray) -> Any:
        """The one number of an evaluation, of its values as ``on_host`` gives them."""
        return self.over_clients(values) if self.shape else values
