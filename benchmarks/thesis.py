"""Compare the thesis's tables 1 to 8 with configs/thesis_digits.py: ``python -m benchmarks.thesis DIR [FILE.png]``.

DIR holds the workdirs p_non_iid, a_non_iid, p_iid and a_iid. The script prints Markdown tables in percentage points,
with 95 % Student-t intervals paired by seed. If FILE.png is given, it also draws a figure of tables 1, 2 and 7.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from configs.thesis_digits import PERCENT, RATIOS
from mdfl_jax.experiments.results.summary import interval

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BOTH = PERCENT[1:-1]  # the shares at which there are clients of both speeds
Numbers = tuple[float, ...]  # one for each share
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
TABLE_7: dict[float, Numbers] = {
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

Statistic = dict[str, Any]
Column = list[Statistic]  # one for each share


class Workdir:
    """The sweep points of a study, by the share of fast clients in per cent and the value of the other axis."""

    def __init__(self, folder: Path):
        points = json.loads((folder / "summary.json").read_text())["points"]
        values = [list(point["overrides"].values()) for point in points]
        shares = dict(zip(sorted({share for share, _ in values}), PERCENT))
        self.points = {(shares[share], other): point for (share, other), point in zip(values, points)}

    def over(self, take: Callable[[Any], np.ndarray], other: Any, shares: tuple[int, ...] = PERCENT) -> Column:
        """Return a statistic over seeds for each share, in percentage points.

        Args:
          take: Returns the values of a sweep point, [S] one for each seed, in [0, 1].
          other: The value of the other axis.
          shares: The shares of fast clients in per cent.
        """
        return [interval(100 * take(self.points[share, other])) for share in shares]

    def growth(self, other: Any) -> Column:
        """Return the final accuracy less that of p = 0, for each share above 0."""
        start = _final(self.points[0, other])
        return self.over(lambda point: _final(point) - start, other, PERCENT[1:])

    def lead(self, other: Any) -> Column:
        """Return the mean over the run of the fast clients' accuracy less that of the slow clients."""
        return self.over(_lead, other, BOTH)

    def gain(self, other: Any, plain: Any) -> Column:
        """Return the final accuracy less that of plain averaging; ``plain`` is the axis value of plain averaging."""
        of = lambda share: _final(self.points[share, other]) - _final(self.points[share, plain])  # noqa: E731
        return [interval(100 * of(share)) for share in PERCENT]

    def lead_change(self, other: Any, plain: Any) -> Column:
        """Return the lead less that of plain averaging; ``plain`` is the axis value of plain averaging."""
        of = lambda share: _lead(self.points[share, other]) - _lead(self.points[share, plain])  # noqa: E731
        return [interval(100 * of(share)) for share in BOTH]


def _final(point: Any) -> np.ndarray:
    return np.array(point["final_accuracy"]["per_seed"])


def _lead(point: Any) -> np.ndarray:
    return np.array(point["group_gap"]["mean"]["per_seed"])


def cells(column: Column, sign: str = "+") -> list[str]:
    """Format each statistic as '+1.23 ± 0.45'."""
    return [f"{s['mean']:{sign}.2f} ± {s['ci95']:.2f}" for s in column]


def told(values: Numbers) -> list[str]:
    """Format the thesis's numbers as the thesis prints them."""
    return [f"{value:+.2f}" for value in values]


def markdown(title: str, shares: tuple[int, ...], rows: dict[str, list[str]]) -> str:
    """Format a Markdown table with a column for each share."""
    lines = [["", *(f"p = {share} %" for share in shares)], [":--", *["--:"] * len(shares)]]
    lines += [[name, *row] for name, row in rows.items()]
    return "\n".join([f"**{title}**", "", *("| " + " | ".join(line) + " |" for line in lines), ""])


def tables(folder: Path) -> str:
    """Return all tables as Markdown."""
    non_iid = _tables_of(folder, "non_iid", {"1": TABLE_1, "2": TABLE_2}, {"3": TABLE_3, "7": TABLE_7})
    return non_iid + "\n" + _tables_of(folder, "iid", {"5": TABLE_5, "6": TABLE_6}, {"": {}, "8": TABLE_8})


def _tables_of(folder: Path, data: str, by_p: dict[str, Numbers], by_a: dict[str, dict[float, Numbers]]) -> str:
    """Format the tables of one partition.

    ``by_p`` and ``by_a`` hold the thesis's values by the number of its table; '' marks a table that the thesis lacks.
    """
    p, a = Workdir(folder / f"p_{data}"), Workdir(folder / f"a_{data}")
    rules = {"plain": "uniform", "automatic": "speed_aware_auto"}
    (growth, grown), (lead, led) = by_p.items()
    (lead_by_a, led_by_a), (gain, gained) = by_a.items()

    def rows(thesis: dict[float, Numbers], ours: Callable[[float], Column]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for ratio in RATIOS[1:]:
            found |= {f"a = {ratio:g}, thesis": told(thesis[ratio])} if thesis else {}
            found[f"a = {ratio:g}"] = cells(ours(ratio))
        return found

    final = {name: cells(p.over(_final, rule), "") for name, rule in rules.items()}
    over = {"plain, thesis": told(grown)} | {name: cells(p.growth(rule)) for name, rule in rules.items()}
    leads = {"plain, thesis": told(led)} | {name: cells(p.lead(rule)) for name, rule in rules.items()}
    leads["automatic less plain"] = cells(p.lead_change(rules["automatic"], rules["plain"]))
    gains = rows(gained, lambda ratio: a.gain(ratio, 0.0))
    gains["automatic"] = cells(p.gain(rules["automatic"], rules["plain"]))
    title = f"Table {lead_by_a}: lead" if lead_by_a else "Lead"
    parts = [
        markdown("Final accuracy (%)", PERCENT, final),
        markdown(f"Table {growth}: final accuracy over p = 0", PERCENT[1:], over),
        markdown(f"Table {lead}: lead of the fast clients", BOTH, leads),
        markdown(f"{title} of the fast clients by a", BOTH, rows(led_by_a, a.lead)),
        markdown(f"Table {gain}: final accuracy less that of plain averaging", PERCENT, gains),
    ]
    return "\n".join([{"non_iid": "### Label shards", "iid": "### IID data"}[data], "", *parts])


def draw(folder: Path, file: Path) -> None:
    """Draw tables 1, 2 and 7 (a = 1 and the automatic ratio): our values with intervals, the thesis's as crosses."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    p, a, auto = Workdir(folder / "p_non_iid"), Workdir(folder / "a_non_iid"), "speed_aware_auto"
    figure, panels = plt.subplots(1, 3, figsize=(10.2, 3.6), layout="constrained")
    contents: tuple[tuple[str, tuple[int, ...], Numbers, Column, Column], ...] = (
        ("plain averaging:\nfinal accuracy over p = 0", PERCENT[1:], TABLE_1, p.growth("uniform"), []),
        ("plain averaging:\nlead of the fast clients", BOTH, TABLE_2, p.lead("uniform"), p.lead(auto)),
        ("a = 1:\nfinal accuracy less plain", PERCENT, TABLE_7[1.0], a.gain(1.0, 0.0), p.gain(auto, "uniform")),
    )
    for axes, (title, shares, thesis, ours, automatic) in zip(panels, contents):
        axes.axhline(0, color="#777777", linewidth=0.8)
        axes.plot(shares, thesis, "x--", color="#777777", linewidth=0.9, label="thesis, CIFAR-10, 3 seeds")
        for column, colour, label in (
            (automatic, "#d55e00", "automatic a instead, digits"),
            (ours, "#0072b2", "digits, 12 seeds"),
        ):
            if column:
                means, halves = ([s[key] for s in column] for key in ("mean", "ci95"))
                axes.errorbar(shares, means, halves, fmt="o-", color=colour, markersize=4, capsize=3, label=label)
        axes.set(xlabel="share of fast clients p (%)", ylabel="percentage points")
        axes.set_title(title, fontsize=10)
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(file, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    print(tables(Path(sys.argv[1])))
    if len(sys.argv) > 2:
        draw(Path(sys.argv[1]), Path(sys.argv[2]))
