"""The numbers of metrics.jsonl as arrays: of all sweep points (`Evaluations`), and of one of them (`Curve`).

They are NumPy arrays, so that tables and the page need not import xarray and pandas, which takes most of a second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NOT_METRICS = ("schema", "point", "seed", "round")  # the entries of a line of metrics.jsonl that are no metrics


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


class Evaluations:
    """The numbers of metrics.jsonl of some sweep points: ``evaluations[key]`` is [P, S, E], NaN where one is not known.

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

    def curves(self, judged: str) -> list[Curve]:
        """Return the curve of each sweep point. Its accuracy is the entry ``judged``."""
        arrays, curves = {key: self[key] for key in dict.fromkeys([judged, *self.keys])}, list[Curve]()
        for p, known in enumerate(self.known):
            seeds, rounds = known.any(axis=1), known.any(axis=0)
            own = {key: of[p][np.ix_(seeds, rounds)] for key, of in arrays.items()}
            values = {key: of for key, of in own.items() if not np.isnan(of).all()}
            curves.append(Curve(self.rounds[rounds], own[judged], values, tuple(self.seeds[seeds].tolist())))
        return curves
