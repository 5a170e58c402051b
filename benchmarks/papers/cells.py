"""Formats what the items of the papers show: statistics, tables of sweep points, Markdown."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.papers.items import Rows, Table
from benchmarks.papers.studies import Statistic

Point = dict[str, Any]  # a sweep point of summary.json


def short(value: float, digits: int = 3, sign: str = "") -> str:
    """Format a number with so many significant digits, and a large one as a whole number, never with an exponent.

    >>> short(0.1234), short(123.4, 2), short(1e-7)
    ('0.123', '123', '0.0000001')
    """
    shown = f"{value:{sign}.{digits}g}"
    return shown if "e" not in shown else f"{value:{sign}.0f}" if abs(value) >= 1 else f"{value:{sign}.7f}"


def cell(statistic: Statistic | None, scale: float = 1.0, digits: int = 3, sign: str = "") -> str:
    """Format a statistic as '1.23 ± 0.04': without an interval if there is one seed, as '-' if there is no mean."""
    if statistic is None or statistic["mean"] is None:
        return "-"
    try:
        mean, half = float(statistic["mean"]) * scale, statistic["ci95"]
    except ValueError:  # 'inf', of a run that diverged
        return "diverged"
    shown = short(mean, digits, sign)
    return shown if half is None else f"{shown} ± {short(float(half) * scale, 2)}"


def points(statistic: Statistic | None) -> str:
    """Format a difference in percentage points, as in '+1.23 ± 0.45'."""
    if statistic is None or statistic["mean"] is None:
        return "-"
    half = statistic["ci95"]
    return f"{statistic['mean']:+.2f}" + ("" if half is None else f" ± {half:.2f}")


def value_of(point: Point, path: str) -> str:
    """Return the value of a swept field at a sweep point, as text."""
    value = point["overrides"][path]
    return value if isinstance(value, str) else f"{value:g}"


def pivot(found: Sequence[Point], down: str, across: str, take: Callable[[Point], str]) -> tuple[list[str], Rows]:
    """Arrange sweep points as a table: one field gives the rows, another the columns.

    Returns:
      The header and the rows. A point that diverged has the cell 'diverged', and one that is not there an empty cell.
    """
    rows = list(dict.fromkeys(value_of(p, down) for p in found))
    columns = list(dict.fromkeys(value_of(p, across) for p in found))
    at = {(value_of(p, down), value_of(p, across)): "diverged" if p["diverged"] else take(p) for p in found}
    names = [path.split(".")[-1] for path in (down, across)]
    return [f"{names[0]} \\ {names[1]}", *columns], [[row, *(at.get((row, c), "") for c in columns)] for row in rows]


def markdown(table: Table) -> list[str]:
    """Return the lines of a table in Markdown, with its title above."""
    title, header, rows = table
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
    return [f"**{title}**", "", *("| " + " | ".join(line) + " |" for line in lines), ""]
