"""The tables of a study, with one row for each sweep point: as Markdown, LaTeX, CSV, text, and columns of the page."""

import html
import math
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.core.metric import TABLE, TARGET, Shown
from mdfl_jax.core.outcomes import chosen_words, enumerated, known_seeds
from mdfl_jax.report.sheet import (
    Cell,
    Sheet,
    format_number,
    in_text,
    number_with,
    percent_cell,
    plain_number,
    write_sheet,
)
from mdfl_jax.results.axes import as_number, is_attacked, spaced, sweep_axes
from mdfl_jax.results.results import VIEWS, Results
from mdfl_jax.results.statistics import difference, power_in_words

BITS_PER_MEGABYTE = 8e6
_DATA = ("data.", "network.num_clients")  # settings that decide which data a client holds: how their paths begin
FEW_SEEDS = 6  # so many seeds are named one by one
SUSPECTS = ("algorithm.lr", "algorithm.consensus_lr")  # steps that are known to be too long if a run diverges
COMPRESSOR = "algorithm.compressor"  # one that loses much may let errors grow from round to round


class NumberColumn(NamedTuple):
    """A column of numbers, one for each sweep point.

    Attributes:
      key: the entry of the points in summary.json.
      header: the heading in printed tables.
      divisor: the numbers are divided by it.
      is_share: whether they are shares, which are shown in per cent with two digits.
      title: the heading on the page, where it is another one.
      in_csv: the name in the CSV file, where it is not the key: there a share has two columns, `_mean` and `_ci95`.
    """

    key: str
    header: str
    divisor: float = 1.0
    is_share: bool = False
    title: str = ""
    in_csv: str = ""

    def cell(self, point: Mapping[str, Any]) -> Cell:
        """Return the cell of a sweep point, with half the width of the interval if there is one."""
        found, mean = point.get(self.key), plain_number(point.get(self.key))
        if self.is_share:
            return percent_cell(found, "+" if self.key == DIFFERENCE else "-")
        half = found.get("ci95") if isinstance(found, Mapping) else None
        mean = None if mean is None else mean / self.divisor
        if mean is None or half is None or not math.isfinite(mean):
            return Cell(format_number(mean), mean)
        return Cell(number_with(mean, half / self.divisor), mean)

    def cells(self, study: Results) -> list[Cell]:
        """Return the cells of all sweep points; that of a difference says which points are baselines."""
        points = study.outcomes
        baselines = {of["id"] for of in points if of["id"] == of["baseline"]}
        named = baselines if self.key == DIFFERENCE and len(points) > 1 else ()
        return [Cell("baseline", 0.0) if point["id"] in named else self.cell(point) for point in points]

    def raw(self, point: Mapping[str, Any]) -> dict[str, float | None]:
        """Return the numbers of a sweep point by their names in the CSV file. Shares are fractions there."""
        found = point.get(self.key)
        if self.is_share:
            return {f"{self.in_csv}_{part}": (found or {}).get(part) for part in ("mean", "ci95")}
        mean = plain_number(found)
        return {self.in_csv or self.key: mean / self.divisor if self.in_csv and mean is not None else mean}


DIFFERENCE, DISTANCE = "difference_to_baseline", "distance_moved_per_mobile_client"
FIRST = (
    NumberColumn("final_accuracy", "accuracy (%)", is_share=True, in_csv="accuracy"),
    NumberColumn(DIFFERENCE, "vs baseline (pp)", is_share=True, in_csv="difference"),
    NumberColumn("worst_client_accuracy", "worst client (%)", is_share=True, in_csv="worst_client"),
    NumberColumn("rounds_to_target", "rounds to target"),
    NumberColumn(
        "bits_sent_per_client",
        "MB sent/client",
        BITS_PER_MEGABYTE,
        title="MB sent per client",
        in_csv="megabytes_sent_per_client",
    ),
    NumberColumn(DISTANCE, "distance/mobile", title="distance moved per mobile client"),
)
"""The columns that every table begins with. Others are shown if a sweep point has a value for them."""


def number_columns(study: Results) -> list[NumberColumn]:
    """Return all columns of numbers: the first ones, megabytes to the target, then metrics for the table, by header."""
    shown = study.declared.values()
    metrics = [NumberColumn(metric.key, with_unit(metric), metric.scale) for metric in shown if TABLE in metric.where]
    metrics += [
        NumberColumn(f"{metric.key}_to_target", f"{metric.title} to target", metric.scale)
        for metric in shown
        if TARGET in metric.where
    ]
    to_target = NumberColumn("bits_to_target", "MB to target", BITS_PER_MEGABYTE)
    return [*FIRST, to_target, *sorted(metrics, key=lambda c: c.header)]


def with_unit(metric: Shown) -> str:
    """Return the title of a metric with its unit, as a title of one's own may lack it."""
    named = not metric.unit or metric.scale != 1 or metric.unit.lower() in metric.title.lower()
    return metric.title if named else f"{metric.title} ({metric.unit})"


def sheet(results: Results, full: bool = False) -> Sheet:
    """Return the printed table, one row for each sweep point that is chosen (`columns`)."""
    shown = columns(results.chosen(), full)
    bold = frozenset((row, k) for k, column in enumerate(shown) for row in column.bold)
    rows = [[cell.text for cell in row] for row in zip(*(column.cells for column in shown))]
    names = sum(column.is_name for column in shown)
    return Sheet([column.header for column in shown], rows, names, bold, note(results))


def best_of(cells: Sequence[Cell], better: Callable[[Sequence[float]], float]) -> list[int]:
    """Return the places of the best number of several cells, by ``max`` or ``min``; none of a single one."""
    known = [cell.number for cell in cells if cell.number is not None]
    return [i for i, cell in enumerate(cells) if len(known) > 1 and cell.number == better(known)]


def best_and_ties(
    points: Sequence[Mapping[str, Any]],
    key: str,
    better: Callable[[Sequence[float]], float] = max,
    paired: Callable[[str, str], bool] = lambda one, other: True,
) -> list[int]:
    """Return the places of the points of summary.json whose numbers are printed bold; none of a single one.

    These are the best one, and those from which its seeds do not tell it: the 95 % interval of the difference includes
    0, or is not known. With one seed no interval is known, and none is bold.

    Args:
      points: the points; an empty one has no result.
      key: the entry that is compared.
      better: ``max`` or ``min``.
      paired: tells of two points, by their ids, whether their runs are paired by seed
        (`Results.pairing`).
    """
    means = [plain_number(point.get(key)) for point in points]
    best = best_of([Cell("", None if mean is None or math.isnan(mean) else mean) for mean in means], better)
    values = [by_seed(point, key) for point in points]
    if not best or not values[best[0]]:
        return best
    ids = [point.get("id", "") for point in points]
    gaps = {
        p: difference(values[best[0]], of, paired(ids[best[0]], ids[p]))
        for p, of in enumerate(values)
        if of and p != best[0]
    }
    if gaps and all(gap.get("ci95") is None for gap in gaps.values()):
        return []
    ties = [p for p, gap in gaps.items() if (half := gap.get("ci95")) is None or abs(gap["mean"]) <= half]
    return sorted({*best, *ties})


def by_seed(point: Mapping[str, Any], key: str) -> dict[int, float]:
    """Return the values of an entry of a point by seed, without those of runs that have diverged.

    A point that names no seeds has the same ones as the others.
    """
    found = point.get(key)
    values = (found.get("per_seed") or []) if isinstance(found, Mapping) else []
    pairs = zip(point.get("seeds") or range(len(values)), values)
    return {seed: float(value) for seed, value in pairs if value is not None and not math.isnan(float(value))}


def raw_table(results: Results) -> tuple[list[str], list[list[str | float | None]]]:
    """Return the table as unformatted numbers. Accuracies and differences are fractions; a missing value is None."""
    study = results.chosen()
    columns = number_columns(study)
    settings = [column for column in setting_columns(study, labelled=False) if column.key]
    header, rows = list[str](), list[list[str | float | None]]()
    for p, point in enumerate(study.outcomes):
        row: dict[str, Any] = {"point": point["id"], **{of.header: of.cells[p].text for of in settings}}
        for column in columns:
            row |= column.raw(point)
        row |= {"seeds": known_seeds(point["final_accuracy"]), "seeds_diverged": len(point.get("diverged") or ())}
        header, rows = list(row), [*rows, list(row.values())]
    return header, rows


def text(results: Results, width: int = 0) -> str:
    """Return the table for a terminal, in aligned columns of ASCII numbers, with a note and the power below it.

    Columns that do not fit in the width go on below, with the names again. A width of 0 is that of the terminal.
    """
    shown, power = sheet(results), results.summary.get("power")
    rows = [[cell.replace("±", "+-") for cell in row] for row in shown.rows]
    lines = in_text(shown._replace(rows=rows), width or shutil.get_terminal_size((160, 24)).columns)
    return "\n".join([*lines, *filter(None, [power_in_words(power)])])


def note(study: Results) -> str:
    """Return one line that explains the numbers of the table: seeds, interval, baseline and target."""
    points, summary, config = study.outcomes, study.summary, study.config
    counts = {known_seeds(point["final_accuracy"]) for point in points} - {0}
    least, seeds = min(counts, default=0), max(counts, default=0)
    over = f"{seeds} seeds" if least == seeds else f"{least} to {seeds} seeds"
    few = (
        "no run has a result",
        "one seed, hence no interval",
        "mean over two seeds, which are too few for an interval",
    )
    spread = few[seeds] if seeds < len(few) else f"mean and 95 % Student-t interval over {over}"
    of = " of the global model" if config.get("judged") == "global" else ""
    of = of or (" of the honest clients" if is_attacked(points, config) else "")
    meaning = f" (it is {summary['accuracy_is']})" if summary.get("accuracy_is") else ""
    when = "Final test accuracy" if summary.get("round") is None else f"Test accuracy at round {summary['round']}"
    parts = [f"{when}{of}{meaning}: {spread}"]
    gaps = [point["difference_to_baseline"] for point in points if point.get("difference_to_baseline")]
    gaps = [gap for gap in gaps if plain_number(gap) is not None]
    if len(points) > 1 and gaps:
        paired = [gap.get("paired", True) for gap in gaps]
        how = "paired by seed" + ("" if all(paired) else " where this is possible") if any(paired) else "not paired"
        parts.append(f"differences in percentage points, {how}, to {_compared_with(study)}")
        if apart := _apart(study):
            parts.append(f"pairs that differ in {', '.join(apart)} share the seed, but not the same data")
    if added := [point["sampling"]["ci95"] for point in points if point.get("sampling")]:
        most = max((half for half in added if half is not None), default=math.nan)
        parts.append(
            "the evaluations between the first and the last are of a sample, which adds an error of at most "
            f"{100 * most:.2f} points (95 %) to the mean accuracies there"
        )
    parts += [f"{enumerated(ids)} are equal in all seeds" for ids in equal_points(points)]
    diverged = [f"{point['id']} ({seeds_in_words(point)})" for point in points if point.get("diverged")]
    if diverged:
        parts.append(f"models DIVERGED, and are in no mean: {'; '.join(diverged)}")
    if words := chosen_words(config):
        edges = [str(e["id"]) for e in summary.get("selected") or () if e["at_edge"]]
        parts.append(f"in each setting, only the {words} is shown")
        if edges:
            parts.append(f"at the edge of the grid: {'; '.join(edges)}")
    target = config.get("target")
    if target is not None:
        reached = any(plain_number(point.get("rounds_to_target")) is not None for point in summary["points"])
        parts.append(f"target: {100 * target:g} % test accuracy" + ("" if reached else ", which no mean reaches"))
    return "; ".join(parts) + "."


def _compared_with(study: Results) -> str:
    """Return in words to which row a difference is: the baseline, or of several the one with the same settings."""
    by_id = dict(zip(study.points, study.outcomes))
    if study.summary["baseline"] in by_id:
        return f"the baseline {study.summary['baseline']}"
    others = [(point, by_id.get(point["baseline"])) for point in study.outcomes]
    pairs = [(point["overrides"], other["overrides"]) for point, other in others if other]
    first = pairs[0][0] if pairs else ()
    same = [path for path in first if all(one.get(path) == other.get(path) for one, other in pairs)]
    axes = {axis.path: spaced(axis.name) for axis in sweep_axes(study.outcomes, study.config)}
    names = enumerated([axes.get(path, path) for path in same])
    return f"the row 'baseline' with the same {names}" if same else "their baselines"


def _apart(study: Results) -> list[str]:
    """Return the settings of the data in which a point differs from the baseline that it is paired with."""
    by_id, found = dict(zip(study.points, study.outcomes)), dict[str, None]()
    for point in study.outcomes:
        other = by_id.get(point["baseline"])
        if other and (gap := point.get("difference_to_baseline")) and gap.get("paired", True):
            mine, theirs = point["overrides"], other["overrides"]
            found |= dict.fromkeys(p for p in mine if p.startswith(_DATA) and mine[p] != theirs.get(p))
    return list(found)


MEASURED = ("final_accuracy", "best_accuracy", "worst_client_accuracy", "objective", "mean_model_loss")


def equal_points(points: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the ids of the sweep points of summary.json whose results are equal in all seeds, group by group."""
    groups: dict[str, list[str]] = {}
    for point in points:
        found = [(point.get(key) or {}).get("per_seed") for key in MEASURED]
        known = [value for of in found for value in of or () if value is not None and math.isfinite(float(value))]
        if known:
            groups.setdefault(repr((point.get("seeds"), found)), []).append(str(point["id"]))
    return [ids for ids in groups.values() if len(ids) > 1]


def write_summary(study: Results, folder: Path) -> list[Path]:
    """Write summary.md, .tex and .csv into a folder, and return the paths."""
    header, rows = raw_table(study)
    return write_sheet(folder / "summary", sheet(study, full=True), [header, *rows])


@VIEWS.register("table")
def as_html(results: Results) -> str:
    """Return the table as HTML for a notebook, with the note below it. Every text of the study is escaped."""

    def line(tag: str, cells: list[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    shown = sheet(results)
    body = "\n".join(line("td", row) for row in shown.rows)
    header, below = line("th", shown.header), html.escape(shown.note)
    return f"<table>\n<thead>{header}</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n<p>{below}</p>"


class Column(NamedTuple):
    """One column of a table.

    Attributes:
      key: its key in summary.json, or the path of a setting.
      header: the heading in printed tables.
      cells: one for each sweep point.
      is_name: whether it is a setting that tells the sweep points apart.
      bold: the rows that are printed bold.
    """

    key: str
    header: str
    cells: list[Cell]
    is_name: bool = False
    bold: Collection[int] = ()


def columns(study: Results, full: bool = False) -> list[Column]:
    """Return the settings that differ, and the columns of numbers in which a value is not zero.

    With ``full`` settings have the long forms of their labels.
    """
    best = best_and_ties(study.outcomes, "final_accuracy", paired=study.pairing)
    found = [
        Column(of.key, of.header, of.cells(study), bold=best if of.key == "final_accuracy" else ())
        for of in number_columns(study)
    ]
    told = [column for column in found if any(cell.number not in (None, 0.0) for cell in column.cells)]
    return [*setting_columns(study, full), *told]


def setting_columns(study: Results, full: bool = False, labelled: bool = True) -> list[Column]:
    """Return a column for each varying setting; without any, one without a key that has the ids of the points."""
    axes = sweep_axes(study.outcomes, study.config, labelled)
    if not axes:
        return [Column("", "point", [Cell(str(name), None) for name in study.points], is_name=True)]
    texts = [axis.full_texts if full else axis.texts for axis in axes]
    cells = [[Cell(text, as_number(value)) for text, value in zip(of, axis.values)] for of, axis in zip(texts, axes)]
    return [Column(axis.path, axis.name, of_axis, is_name=True) for axis, of_axis in zip(axes, cells)]


def page_columns(study: Results) -> list[Column]:
    """Return the columns of the table on the page, with headings that need no note."""
    labels = dict(zip(study.points, study.labels))
    own = {point["baseline"] for point in study.outcomes} & labels.keys()
    against = labels[own.pop()] if len(own) == 1 else "the baseline"
    target = study.config.get("target")
    goal = "target" if target is None else f"{100 * target:g} %"
    titles = {of.key: of.title for of in FIRST if of.title} | {DIFFERENCE: f"difference to {against} (points)"}

    def titled(column: Column) -> Column:
        if column.is_name:
            cells = [cell._replace(text=spaced(cell.text)) for cell in column.cells]
            return column._replace(key=column.key or "point", header=spaced(column.header), cells=cells)
        title = titles.get(column.key, column.header)
        return column._replace(header=re.sub("to target$", f"to {goal}", title))

    return list(map(titled, columns(study, full=True)))


def seeds_in_words(point: Mapping[str, Any]) -> str:
    """Return which seeds of a sweep point of summary.json have diverged, as in "seeds 0 and 2"."""
    seeds = list(point["diverged"])
    if len(seeds) > FEW_SEEDS:
        return f"{len(seeds)} seeds, {', '.join(seeds[:FEW_SEEDS])}, ..."
    return f"seed{'s' * (len(seeds) > 1)} {enumerated(seeds)}"


def cause_of_divergence(values: Callable[[str], Any]) -> str:
    """Return a hint at why the runs of a sweep point have diverged, from its values by path; "" without one.

    >>> cause_of_divergence({"algorithm.lr": 30.0}.get)
    'algorithm.lr is 30; a smaller step may help'
    >>> cause_of_divergence({"algorithm.lr": 0.3, "algorithm.compressor": "qsgd"}.get)
    'algorithm.lr is 0.3 and algorithm.compressor is qsgd; a smaller step or a compressor that loses less may help'
    """
    steps = {path: value for path in SUSPECTS if isinstance(value := values(path), int | float) and value > 0}
    said = [f"{path} is {value:g}" for path, value in steps.items()]
    helps = ["a smaller step" if len(steps) == 1 else "smaller steps"] if steps else []
    if (compressor := values(COMPRESSOR)) and compressor != "identity":
        said.append(f"{COMPRESSOR} is {compressor}")
        helps.append("a compressor that loses less")
    return f"{enumerated(said)}; {' or '.join(helps)} may help" if said else ""


def divergence_warning(study: Results, p: int) -> str:
    """Return a line for the user about a sweep point of which some runs have diverged."""
    point = study.outcomes[p]
    found = list(point["divergence"].items())[:FEW_SEEDS]
    seeds = [f"seed {seed} in round {at['round']}{_norm(at['norm'])}" for seed, at in found]
    more = len(point["diverged"]) - len(seeds)
    said = "; ".join(seeds) + (f"; and {more} more seeds" if more else "")
    why = cause_of_divergence(partial(study.value, p))
    return f"{point['id']}: diverged: {said}" + (f" ({why})" if why else "")


def _norm(norm: float | str | None) -> str:
    if norm is None or math.isnan(float(norm)):
        return ""
    return f" with norm {float(norm):.3g}"
