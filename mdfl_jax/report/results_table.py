"""The table of the page: the columns of a study's results that say something, with the numbers to sort by."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mdfl_jax.report import tables
from mdfl_jax.report.read import Run
from mdfl_jax.report.settings import as_number, spaced, sweep_axes
from mdfl_jax.report.style import looks

PERCENT = 100.0


class Cell(NamedTuple):
    """One cell: its text, and the number by which its column is sorted (None: by the text, or missing)."""

    text: str
    number: float | None


class Column(NamedTuple):
    """One column of the table on the page.

    Attributes:
      key: its key in summary.json, or the path of a setting.
      title: the heading, with the unit.
      cells: one for each sweep point.
      is_name: whether it is a setting that tells the sweep points apart.
    """

    key: str
    title: str
    cells: list[Cell]
    is_name: bool = False

    @property
    def says_something(self) -> bool:
        """Whether a cell has a value that is not zero; a column without one is left out."""
        return self.is_name or any(cell.number not in (None, 0.0) for cell in self.cells)

    @property
    def best(self) -> int | None:
        """The row with the highest final accuracy, which is printed bold; None for other columns and for one row."""
        ranked = [(cell.number, -i) for i, cell in enumerate(self.cells) if cell.number is not None]
        return -max(ranked)[1] if self.key == "final_accuracy" and len(ranked) > 1 else None


def columns(run: Run) -> list[Column]:
    """Return the columns of the table that say something, settings first."""
    found = [*_settings(run), *_accuracies(run), *_numbers(run)]
    return [column for column in found if column.says_something]


def colours(run: Run) -> list[str]:
    """Return the colour of each sweep point, the one of its curves."""
    return [look.colour for look in looks(run)]


def _settings(run: Run) -> list[Column]:
    axes = sweep_axes(run.points, run.config)
    if not axes:
        return [Column("point", "point", [Cell(spaced(str(point["id"])), None) for point in run.points], True)]
    cells = [[Cell(spaced(t), as_number(v)) for t, v in zip(axis.texts, axis.values)] for axis in axes]
    return [Column(axis.path, spaced(axis.name), of_axis, is_name=True) for axis, of_axis in zip(axes, cells)]


def _accuracies(run: Run) -> list[Column]:
    """Return the accuracy, its difference to the baseline and that of the worst client, with their intervals."""
    labels = {point["id"]: look.label for point, look in zip(run.points, looks(run))}
    own = [point.get("baseline", run.summary.get("baseline")) for point in run.points]
    baselines = {name for name in own if name in labels}
    against = labels.get(next(iter(baselines)), "the baseline") if len(baselines) == 1 else "the baseline"
    titles = {
        "final_accuracy": "accuracy (%)",
        "difference_to_baseline": f"difference to {against} (points)",
        "worst_client_accuracy": "worst client (%)",
    }
    found = []
    for key, title in titles.items():
        sign = "+" if key == "difference_to_baseline" else "-"
        cells = [
            Cell("baseline", 0.0)
            if sign == "+" and baseline == point["id"] and len(run.points) > 1
            else percent_cell(point.get(key), sign)
            for point, baseline in zip(run.points, own)
        ]
        found.append(Column(key, title, cells))
    return found


def _numbers(run: Run) -> list[Column]:
    """Return the other columns: costs, rounds to the target, and metrics for the table."""
    target = run.config.get("target")
    goal = "target" if target is None else f"{PERCENT * target:g} %"
    usual = [
        tables.Column("rounds_to_target", "rounds to target"),
        tables.Column("bits_sent_per_client", "MB sent per client", tables.BITS_PER_MEGABYTE),
        tables.Column("distance_moved_per_mobile_client", "distance moved per mobile client"),
    ]
    found = []
    for key, header, divisor in [*usual, *tables.extra_columns(run.summary)]:
        numbers = [_scaled(point, key, divisor) for point in run.points]
        title = f"{header.removesuffix(' to target')} to {goal}" if header.endswith(" to target") else header
        found.append(Column(key, title, [Cell(tables.number(number), number) for number in numbers]))
    return found


def percent_cell(statistic: Mapping[str, Any] | None, sign: str = "-") -> Cell:
    """Return a cell with a mean and its interval in percent; with the sign "+", positive means have their sign too."""
    mean = tables.mean_of(statistic)
    return Cell(tables.percent(statistic, "±", sign), None if mean is None else PERCENT * mean)


def _scaled(point: Mapping[str, Any], key: str, divisor: float) -> float | None:
    value = tables.mean_of(point.get(key))
    return None if value is None else value / divisor
