"""The curves of a study: accuracy and other metrics of each sweep point against the rounds, from metrics.jsonl."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import GROUPS
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.storage.study_files import require

ROUNDS = "rounds"  # the default x axis
GROUP_KEYS = tuple(f"{metric.in_files}_{group}" for metric in BUILT_IN if metric.by_group for group in GROUPS)


@dataclass(frozen=True)
class Curve:
    """The accuracy and further metrics of one sweep point against the rounds."""

    rounds: np.ndarray  # [E] evaluated rounds
    accuracy: np.ndarray  # [S, E] mean over clients; NaN where a seed has no value, as after divergence
    groups: dict[str, np.ndarray]  # [S, E] by GROUP_KEYS; NaN for an empty group; keys may be missing
    measured: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # [S, E] by shown metric
    seeds: tuple[int, ...] = ()  # the S seeds

    @property
    def of_results(self) -> "Curve":
        """The curve of the seeds whose runs have not diverged, those of means; the whole curve if all have."""
        known = ~np.isnan(self.accuracy[:, -1])
        if known.all() or not known.any():
            return self
        groups, measured = ({key: of[known] for key, of in own.items()} for own in (self.groups, self.measured))
        seeds = tuple(seed for seed, is_known in zip(self.seeds, known) if is_known)
        return Curve(self.rounds, self.accuracy[known], groups, measured, seeds)

    def along(self, x_axis: str) -> np.ndarray:
        """Return the values along the x axis, [E]: the rounds, or the mean of a metric over the seeds.

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

    def at(self, a_round: int) -> dict[int, float]:
        """Return the accuracy at a round by seed; nothing for a round that is not evaluated."""
        columns = self.accuracy[:, self.rounds == a_round]  # [S, 1], or [S, 0]
        return {seed: float(value) for seed, row in zip(self.seeds, columns) for value in row}


def make_curves(
    lines: Sequence[Mapping[str, Any]], path: Path, ids: Sequence[str], judged: str, shown: Mapping[str, str]
) -> dict[str, Curve]:
    """Make the curves by sweep point. If two lines have the same sweep point, seed and round, the later one is used.

    Args:
      lines: the lines of metrics.jsonl.
      path: the path of metrics.jsonl, for errors.
      ids: the ids of the sweep points.
      judged: the key of the accuracy.
      shown: key -> name for each further metric to read.

    Raises:
      UserError: if a line lacks an entry, or if a sweep point has no line.
    """
    values: dict[str, dict[tuple[int, int], Mapping[str, Any]]] = {name: {} for name in ids}
    for row in lines:
        require(row, ("point", "seed", "round", judged), path)
        if row["point"] in values:
            values[row["point"]][row["seed"], row["round"]] = row
    keys = (judged, *GROUP_KEYS, *shown)
    curves = {}
    for name, by_key in values.items():
        if not by_key:
            raise UserError(f"{path}: has no line for the point {name!r} of summary.json")
        seeds, rounds = ({key: i for i, key in enumerate(sorted(found))} for found in map(set, zip(*by_key)))
        arrays = {}
        for key in keys:
            if any(key in row for row in by_key.values()):
                arrays[key] = np.full((len(seeds), len(rounds)), np.nan)
                for (seed, at_round), row in by_key.items():
                    value = row.get(key)
                    arrays[key][seeds[seed], rounds[at_round]] = np.nan if value is None else value
        measured = {of: arrays[key] for key, of in shown.items() if key in arrays}
        groups = {key: arrays[key] for key in GROUP_KEYS if key in arrays}
        curves[name] = Curve(np.array(list(rounds)), arrays[judged], groups, measured, tuple(seeds))
    return curves
