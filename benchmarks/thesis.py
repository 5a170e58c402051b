"""Compare the thesis's tables 1 to 8 with configs/thesis_digits.py: ``python -m benchmarks.thesis DIR [FILE.png]``.

DIR holds the workdirs p_non_iid, a_non_iid, p_iid and a_iid. The script prints Markdown tables in percentage points,
with 95 % Student-t intervals paired by seed. If FILE.png is given, it also draws a figure of tables 1, 2 and 7. The
thesis's numbers are in benchmarks/papers/shares.py, and its studies on CIFAR-10 in benchmarks/papers/thesis.py.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib

from benchmarks.papers import shares
from benchmarks.papers.cells import markdown
from benchmarks.papers.shares import ByShare, Column, Numbers, at, table
from benchmarks.papers.studies import Study
from configs.thesis_digits import RATIOS

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PLAIN, AUTOMATIC = "uniform", "speed_aware_auto"


def read(folder: Path, study: str) -> ByShare:
    """Return the sweep points of one of the four studies."""
    return ByShare(Study(folder / study).points)


def tables(folder: Path) -> str:
    """Return all tables as Markdown."""
    by_p, by_a = {"1": shares.TABLE_1, "2": shares.TABLE_2}, {"3": shares.TABLE_3, "7": shares.TABLE_7}
    non_iid = _tables_of(folder, "non_iid", by_p, by_a)
    by_p = {"5": shares.TABLE_5, "6": shares.TABLE_6}
    return non_iid + "\n" + _tables_of(folder, "iid", by_p, {"": {}, "8": shares.TABLE_8})


def _tables_of(
    folder: Path, data: str, by_p: Mapping[str, Numbers], by_a: Mapping[str, Mapping[float, Numbers]]
) -> str:
    """Format the tables of one partition.

    ``by_p`` and ``by_a`` hold the thesis's values by the number of its table; '' marks a table that the thesis lacks.
    """
    p, a = read(folder, f"p_{data}"), read(folder, f"a_{data}")
    rules = {"plain": PLAIN, "automatic": AUTOMATIC}
    (growth, grown), (lead, led) = by_p.items()
    (lead_by_a, led_by_a), (gain, gained) = by_a.items()

    def rows(of_thesis: Mapping[float, Numbers], ours: Callable[[float], Column]) -> dict[str, Column | Numbers]:
        found: dict[str, Column | Numbers] = {}
        for ratio in RATIOS[1:]:
            found |= {f"a = {ratio:g}, thesis": of_thesis[ratio]} if of_thesis else {}
            found[f"a = {ratio:g}"] = ours(ratio)
        return found

    def by_rule(of: Callable[[str], Column]) -> dict[str, Column | Numbers]:
        return {name: of(rule) for name, rule in rules.items()}

    leads = {"plain, thesis": led, **by_rule(p.lead), "automatic less plain": p.lead_change(AUTOMATIC, PLAIN)}
    gains = {**rows(gained, lambda ratio: a.gain(ratio, 0.0)), "automatic": p.gain(AUTOMATIC, PLAIN)}
    title = f"Table {lead_by_a}: lead" if lead_by_a else "Lead"
    parts = [
        table("Final accuracy (%)", by_rule(p.accuracy), sign=""),
        table(f"Table {growth}: final accuracy over p = 0", {"plain, thesis": grown, **by_rule(p.growth)}),
        table(f"Table {lead}: lead of the fast clients", leads),
        table(f"{title} of the fast clients by a", rows(led_by_a, a.lead)),
        table(f"Table {gain}: final accuracy less that of plain averaging", gains),
    ]
    lines = [line for part in parts for line in markdown(part)]
    return "\n".join([{"non_iid": "### Label shards", "iid": "### IID data"}[data], "", *lines])


def draw(folder: Path, file: Path) -> None:
    """Draw tables 1, 2 and 7 (a = 1 and the automatic ratio): our values with intervals, the thesis's as crosses."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    p, a = read(folder, "p_non_iid"), read(folder, "a_non_iid")
    figure, panels = plt.subplots(1, 3, figsize=(10.2, 3.6), layout="constrained")
    contents: tuple[tuple[str, Numbers, Column, Column], ...] = (
        ("plain averaging:\nfinal accuracy over p = 0", shares.TABLE_1, p.growth(PLAIN), {}),
        ("plain averaging:\nlead of the fast clients", shares.TABLE_2, p.lead(PLAIN), p.lead(AUTOMATIC)),
        ("a = 1:\nfinal accuracy less plain", shares.TABLE_7[1.0], a.gain(1.0, 0.0), p.gain(AUTOMATIC, PLAIN)),
    )
    for axes, (title, told, ours, automatic) in zip(panels, contents):
        axes.axhline(0, color="#777777", linewidth=0.8)
        shown = at(told)
        label = "thesis, CIFAR-10, 3 seeds"
        axes.plot(list(shown), list(shown.values()), "x--", color="#777777", linewidth=0.9, label=label)
        for column, colour, label in (
            (automatic, "#d55e00", "automatic a instead, digits"),
            (ours, "#0072b2", "digits, 12 seeds"),
        ):
            if column:
                means, halves = ([s[key] for s in column.values()] for key in ("mean", "ci95"))
                axes.errorbar(list(column), means, halves, fmt="o-", color=colour, markersize=4, capsize=3, label=label)
        axes.set(xlabel="share of fast clients p (%)", ylabel="percentage points")
        axes.set_title(title, fontsize=10)
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(file, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    print(tables(Path(sys.argv[1])))
    if len(sys.argv) > 2:
        draw(Path(sys.argv[1]), Path(sys.argv[2]))
