"""A table of one quantity by two settings, as a paper prints it: as Markdown, CSV and LaTeX."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.report import sheet
from mdfl_jax.report.sheet import MISSING, Cell, Sheet, plain_number
from mdfl_jax.report.style import describe_end, describe_seeds, has_intervals, main_axis
from mdfl_jax.report.tables import NumberColumn, best_and_ties, number_columns
from mdfl_jax.results.axes import Axis, spaced
from mdfl_jax.results.results import Results


class Pivot(NamedTuple):
    """A table of one quantity by two settings: printed, and as the rows of a CSV file."""

    sheet: Sheet
    numbers: list[list[Any]]


BETTER: dict[str, Callable[[Sequence[float]], float]] = {
    "accuracy": max,
    "loss": min,
    "objective": min,
    "target": min,
    "client": min,
}  # by the end of a key


def pivot(study: Results, rows: str = "", columns: str = "", metric: str = "final_accuracy") -> Pivot | None:
    """Return the means of a quantity with their intervals by two settings; the best of each column is bold.

    Args:
      study: the study.
      rows, columns: the paths or names of two varying settings. Without them the rows are the values of the setting
        that decides the colours, and the columns those of the other setting with most values. Further settings that
        vary are told in front of the rows.
      metric: an entry of the points of summary.json, such as 'worst_client_accuracy' or a metric of one's own.

    Returns:
      The table; None if fewer than two settings vary.

    Raises:
      UserError: if the study does not vary the settings, or has no such entry.
    """
    axes = study.axes
    given = [_axis_named(study, text, flag) for text, flag in ((rows, "rows"), (columns, "columns")) if text]
    if len(axes) < 2:
        return None
    main = given[0] if rows else next(axis for axis in (main_axis(study), *axes) if axis and axis not in given)
    across = given[-1] if columns else max((of for of in axes if of != main), key=lambda of: len(of.distinct))
    if main == across:
        raise UserError(f"--rows={rows} --columns={columns}: they must be two settings")
    down = [*(axis for axis in axes if axis not in (main, across)), main]
    column = _quantity(study, metric)
    keys = list(dict.fromkeys(zip(*(axis.texts for axis in down))))
    keys.sort(key=lambda key: [axis.distinct.index(text) for axis, text in zip(down, key)])
    at = {(tuple(axis.texts[p] for axis in down), across.texts[p]): p for p in range(len(study.points))}
    cells = [[at.get((key, text)) for text in across.distinct] for key in keys]
    shown = [[Cell(MISSING, None) if p is None else column.cell(study.outcomes[p]) for p in row] for row in cells]
    numbers = [[None if p is None else study.outcomes[p].get(metric) for p in row] for row in cells]
    better, bold = BETTER.get(metric.rpartition("_")[2]), set[tuple[int, int]]()
    if better is not None:
        points = [[{} if p is None else study.outcomes[p] for p in column] for column in zip(*cells)]
        bold |= {
            (row, len(down) + k)
            for k, of in enumerate(points)
            for row in best_and_ties(of, metric, better, study.pairing)
        }
    header = [*(axis.name for axis in down), *across.distinct]
    interval = " and its 95 % Student-t interval" if has_intervals(study) else ""
    about = f"{column.header} at {describe_end(study)}: {describe_seeds(study)}{interval}"
    about += "; bold: the best of a column, and what its seeds do not tell from it."
    texts = [[*key, *(cell.text for cell in row)] for key, row in zip(keys, shown)]
    parts = [f"{across.name}={text}{part}" for text in across.distinct for part in ("", " ci95")]
    raw: list[list[Any]] = [[axis.name for axis in down] + parts]
    raw += [[*key, *(of for found in row for of in _mean_and_half(found))] for key, row in zip(keys, numbers)]
    return Pivot(Sheet(header, texts, len(down), frozenset(bold), about, spaced(across.name)), raw)


def _mean_and_half(found: Any) -> tuple[float | None, float | None]:
    return plain_number(found), found.get("ci95") if isinstance(found, Mapping) else None


def _axis_named(study: Results, name: str, flag: str) -> Axis:
    """Return a varying setting by its path or its name.

    Raises:
      UserError: if there is none.
    """
    found = next((axis for axis in study.axes if name in (axis.path, axis.name)), None)
    if found is None:
        raise UserError(f"--{flag}={name}: {unknown_name('varying setting', name, [axis.path for axis in study.axes])}")
    return found


def _quantity(study: Results, key: str) -> NumberColumn:
    """Return the column of an entry of the points of summary.json.

    Raises:
      UserError: if no point has such an entry with a number.
    """
    numeric = (int, float, Mapping)
    known = dict.fromkeys(
        name for point in study.outcomes for name, value in point.items() if isinstance(value, numeric)
    )
    if key not in known:
        raise UserError(f"--metric={key}: {unknown_name('entry of summary.json', key, list(known))}")
    usual = {column.key: column for column in number_columns(study)}
    return usual.get(key, NumberColumn(key, spaced(key), is_share=key.endswith("accuracy")))


_ENDINGS = (".md", ".tex", ".csv")


def save_table(study: Results, path: Path, rows: str, columns: str, metric: str) -> None:
    """Save one table whose format the ending of the file says; the arguments are those of `pivot`.

    Raises:
      UserError: as `pivot`, or if the file cannot be written.
    """
    if path.suffix not in _ENDINGS:
        raise UserError(f"--to={path}: a table ends in {', '.join(_ENDINGS)}")
    found = pivot(study, rows, columns, metric)
    if found is None:
        raise UserError("the table needs two varying settings; tables/summary.tex has a row for each point")
    try:
        if path.suffix == ".csv":
            sheet.write_rows(path, found.numbers)
        else:
            path.write_text(sheet.markdown(found.sheet) if path.suffix == ".md" else sheet.latex(found.sheet), "utf-8")
    except OSError as error:
        raise UserError(f"--to={path}: cannot be written: {error.strerror or error}") from None
