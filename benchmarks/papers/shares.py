"""The thesis's numbers in percentage points, and a study of it by the share p of fast clients in per cent."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.papers.cells import points
from benchmarks.papers.items import Table
from benchmarks.papers.studies import Statistic
from configs.thesis_digits import PERCENT, fast_clients
from mdfl_jax.core.outcomes import interval

BOTH = PERCENT[1:-1]  # the shares at which there are clients of both speeds
Numbers = Sequence[float]  # one for each share
TABLE_1 = (2.73, 4.64, 6.51, 6.71, 8.56, 8.97)
TABLE_2 = (4.81, 4.13, 2.53, 2.04, 0.90)
TABLE_3: dict[float, Numbers] = {
    0.1: (4.66, 3.79, 2.84, 1.90, 1.27),
    0.2: (3.35, 3.70, 3.00, 2.35, 1.20),
    0.3: (4.26, 3.92, 2.81, 1.97, 1.24),
    0.4: (3.16, 3.17, 2.64, 2.28, 1.19),
    1.0: (3.76, 3.45, 3.47, 3.44, 2.89),
}
TABLE_5 = (0.07, 1.12, 1.08, 1.43, 1.90, 2.11)
TABLE_6 = (1.57, 1.21, 0.94, 0.85, 0.60)
TABLE_7: dict[float, Numbers] = {  # its last row is table 4
    0.1: (0.02, 0.85, -1.53, 0.42, 1.33, -0.05, -0.70),
    0.2: (0.29, -0.37, 0.16, -0.07, 0.91, 0.01, -0.13),
    0.3: (0.91, -1.30, 0.05, -0.63, 0.53, 0.13, -0.30),
    0.4: (0.98, -1.40, -0.43, -1.05, 0.13, -1.17, -0.30),
    1.0: (-2.28, -4.20, -5.11, -4.51, -2.03, -1.20, -0.56),
}
TABLE_8: dict[float, Numbers] = {
    0.1: (-0.23, 0.39, -0.53, 0.18, 0.18, -0.09, -0.05),
    0.2: (0.17, 0.23, -0.42, -0.01, 0.06, 0.02, -0.09),
    0.3: (-0.34, -0.05, -1.03, 0.01, -0.03, -0.03, -0.03),
    0.4: (-0.90, 0.12, -1.02, -0.14, -0.13, -0.01, -0.05),
    1.0: (-1.73, -2.26, -4.37, -1.98, -1.98, -0.76, -0.24),
}
Column = dict[int, Statistic]  # by the share of fast clients in per cent


class ByShare:
    """The sweep points of a study, by the share p of fast clients in per cent and the value of the other axis.

    Attributes:
      shares: the shares, in increasing order.
      others: the values of the other axis.
    """

    def __init__(self, found: Iterable[Mapping[str, Any]]):
        counts = {int(n): p for n, p in zip(fast_clients(PERCENT).partition("=")[2].split(","), PERCENT)}
        self._points: dict[tuple[int, Any], Mapping[str, Any]] = {}
        for point in found:
            of_axes = dict(point["overrides"])
            share = counts[of_axes.pop("network.num_mobile")]
            self._points[share, next(iter(of_axes.values()), None)] = point
        self.shares = tuple(sorted({share for share, _ in self._points}))
        self.others: tuple[Any, ...] = tuple(dict.fromkeys(other for _, other in self._points))

    def final(self, share: int, other: Any) -> np.ndarray:
        """Return the final accuracy of the clients for each seed, [S] in per cent."""
        return 100 * np.array(self._points[share, other]["final_accuracy"]["per_seed"])

    def lead_at(self, share: int, other: Any) -> np.ndarray:
        """Return the mean over a run of the fast clients' accuracy less that of the slow ones, [S] in points."""
        return 100 * np.array(self._points[share, other]["group_gap"]["mean"]["per_seed"])

    def contacts(self, share: int, other: Any, group: str) -> np.ndarray:
        """Return the contacts of a client of a group over the run, [S]; ``group`` is mobile or other."""
        return np.array(self._points[share, other]["group_neighbours"][group]["per_seed"])

    def accuracy(self, other: Any) -> Column:
        """Return the final accuracy at each share."""
        return {p: interval(self.final(p, other)) for p in self.shares}

    def growth(self, other: Any) -> Column:
        """Return the final accuracy less that of p = 0, for each share above 0."""
        return {p: interval(self.final(p, other) - self.final(0, other)) for p in self.shares if p}

    def lead(self, other: Any) -> Column:
        """Return the lead of the fast clients, at the shares with clients of both speeds."""
        return {p: interval(self.lead_at(p, other)) for p in self.shares if p in BOTH}

    def gain(self, other: Any, plain: Any) -> Column:
        """Return the final accuracy less that of plain averaging; ``plain`` is the axis value of plain averaging."""
        return {p: interval(self.final(p, other) - self.final(p, plain)) for p in self.shares}

    def lead_change(self, other: Any, plain: Any) -> Column:
        """Return the lead less that of plain averaging; ``plain`` is the axis value of plain averaging."""
        of = lambda p: self.lead_at(p, other) - self.lead_at(p, plain)  # noqa: E731
        return {p: interval(of(p)) for p in self.shares if p in BOTH}


def at(values: Numbers) -> dict[int, float]:
    """Return a row of the thesis by the share: it has all shares, all above 0, or those with clients of both speeds."""
    shares = {len(PERCENT): PERCENT, len(PERCENT) - 1: PERCENT[1:], len(BOTH): BOTH}[len(values)]
    return dict(zip(shares, values))


def table(title: str, rows: Mapping[str, Column | Numbers], sign: str = "+") -> Table:
    """Return a table with a column for each share that we measured; rows are ours, or numbers of the thesis."""
    shares = next(row for row in rows.values() if isinstance(row, dict)).keys()

    def cell(row: Column | Numbers, p: int) -> str:
        return points(row[p]).removeprefix("" if sign else "+") if isinstance(row, dict) else f"{at(row)[p]:+.2f}"

    return (
        title,
        ["", *(f"p = {p} %" for p in shares)],
        [[name, *(cell(row, p) for p in shares)] for name, row in rows.items()],
    )
