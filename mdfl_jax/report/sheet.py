"""A table with printed cells: as Markdown, LaTeX, text for a terminal; its numbers as CSV; how numbers are printed."""

import csv
import io
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.storage import disk

MISSING = "-"


class Cell(NamedTuple):
    """One cell: its text, and the number by which its column is sorted (None: by the text, or missing)."""

    text: str
    number: float | None


class Sheet(NamedTuple):
    """A table with printed cells.

    Attributes:
      header: the headings of the columns.
      rows: the texts of the cells.
      names: how many of the first columns are names; the others are numbers.
      bold: the best cells, (row, column).
      note: what explains the numbers.
      over: a heading above all columns of numbers; "": none.
    """

    header: list[str]
    rows: list[list[str]]
    names: int
    bold: frozenset[tuple[int, int]]
    note: str
    over: str = ""


def markdown(shown: Sheet) -> str:
    """Return a table in Markdown, with its note below it."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    names, over = shown.names, f"{shown.over} = " if shown.over else ""
    header = [*shown.header[:names], *(over + title for title in shown.header[names:])]
    rule = [":--" if k < names else "--:" for k in range(len(header))]
    rows = [
        line(f"**{cell}**" if (i, k) in shown.bold else cell for k, cell in enumerate(row))
        for i, row in enumerate(shown.rows)
    ]
    return "\n".join([line(header), line(rule), *rows, "", shown.note, ""])


_LATEX = {  # what LaTeX takes for something else, and symbols that it has in formulas only
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
}


_NUMBER = re.compile(r"([+-]?\d[\d.]*(?:e[+-]?\d+)?)(?: ± ([\d.]+(?:e[+-]?\d+)?))?")


def _in_formula(number: str) -> str:
    """Return a number as LaTeX writes it in a formula.

    >>> _in_formula("1.5e-05"), _in_formula("12")
    ('1.5 \\\\times 10^{-5}', '12')
    """
    digits, e, exponent = number.partition("e")
    return rf"{digits} \times 10^{{{int(exponent)}}}" if e else number


def latex(shown: Sheet) -> str:
    """Return a table in LaTeX with the rules of booktabs, and its note in a comment above it."""

    def escaped(text: str) -> str:
        return "".join(_LATEX.get(sign, sign) for sign in text)

    def cell(text: str, bold: bool) -> str:
        found = _NUMBER.match(text)
        if found is None:
            return rf"\textbf{{{escaped(text)}}}" if bold else escaped(text)
        number, half = (_in_formula(of) for of in (found[1], found[2] or ""))
        mean = rf"\mathbf{{{number}}}" if bold else number
        half = rf" \pm {half}" if half else ""
        return f"${mean}{half}${escaped(text[found.end() :])}"

    names, count = shown.names, len(shown.header) - shown.names
    rows = [
        [escaped(of) if k < names else cell(of, (i, k) in shown.bold) for k, of in enumerate(row)]
        for i, row in enumerate(shown.rows)
    ]
    over = [
        rf"{'& ' * names}\multicolumn{{{count}}}{{c}}{{{escaped(shown.over)}}} \\",
        rf"\cmidrule(lr){{{names + 1}-{names + count}}}",
    ]
    header, *body = (" & ".join(cells) + r" \\" for cells in (list(map(escaped, shown.header)), *rows))
    lines = [
        *textwrap.wrap(shown.note, 110, initial_indent="% ", subsequent_indent="% "),
        r"% It needs \usepackage{booktabs}.",
        rf"\begin{{tabular}}{{{'l' * names}{'r' * count}}}",
        r"\toprule",
        *(over if shown.over else ()),
        header,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([*lines, ""])


def in_text(shown: Sheet, width: int) -> list[str]:
    """Return the lines of a table for a terminal, in aligned columns; what does not fit in the width goes on below.

    Headings have several lines, at most three, only where one would make the table too wide.
    """
    longest = [max(map(len, cells)) for cells in zip(*shown.rows)]
    headings = [[title] for title in shown.header]
    if sum(max(size, len(title)) + 2 for size, title in zip(longest, shown.header)) - 2 > width:
        headings = [_in_lines(title, max(size, 12)) for title, size in zip(shown.header, longest)]
    widths = [max(size, *map(len, lines)) for size, lines in zip(longest, headings)]
    high = max(map(len, headings))
    above = [[""] * (high - len(lines)) + lines for lines in headings]

    def block(columns: Sequence[int]) -> list[str]:
        def line(cells: Sequence[str]) -> str:
            padded = [cells[k].ljust(widths[k]) if k < shown.names else cells[k].rjust(widths[k]) for k in columns]
            return "  ".join(padded).rstrip()

        rule = "-" * (sum(widths[k] + 2 for k in columns) - 2)
        return [*(line([lines[i] for lines in above]) for i in range(high)), rule, *map(line, shown.rows)]

    names, blocks = list(range(shown.names)), list[list[int]]()
    for k in range(shown.names, len(widths)):
        if not blocks or sum(widths[c] + 2 for c in (*blocks[-1], k)) - 2 > width:
            blocks.append([*names])
        blocks[-1].append(k)
    return [*"\n\n".join("\n".join(block(columns)) for columns in blocks).split("\n"), *textwrap.wrap(shown.note, 110)]


def _in_lines(title: str, width: int) -> list[str]:
    """Break a heading at its spaces into at most three lines, of this width or the least greater one."""
    broken = (textwrap.wrap(title, wide, break_long_words=False) for wide in range(width, width + len(title)))
    return next((lines for lines in broken if len(lines) <= 3), [title])


def write_sheet(path: Path, shown: Sheet, numbers: Iterable[Iterable[Any]]) -> list[Path]:
    """Write a table as .md and .tex and its numbers as .csv, and return the paths; ``path`` has no ending."""
    disk.write_text(path.with_suffix(".md"), markdown(shown))
    disk.write_text(path.with_suffix(".tex"), latex(shown))
    return [path.with_suffix(".md"), path.with_suffix(".tex"), write_rows(path.with_suffix(".csv"), numbers)]


_COMPUTED = tuple("=+-@\t\r")  # how a text begins that a spreadsheet takes for a formula


def write_rows(path: Path, rows: Iterable[Iterable[Any]]) -> Path:
    """Write rows, the first of which is the header, as a CSV file.

    A text that a spreadsheet would compute has an apostrophe before it, as spreadsheets write such texts themselves.
    """
    text = io.StringIO(newline="")
    quoted = ([f"'{cell}" if isinstance(cell, str) and cell[:1] in _COMPUTED else cell for cell in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(quoted)
    disk.write_text(path, text.getvalue())
    return path


def format_number(value: float | None) -> str:
    """Format a number with three significant digits, or as a whole number from 100 on. Large numbers have no exponent.

    >>> [format_number(v) for v in (None, 0, 120, 0.012345, 3.14159, 12345.6)]
    ['-', '0', '120', '0.0123', '3.14', '12346']
    """
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return str(value)
    return f"{value:.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


def number_with(mean: float, half: float) -> str:
    """Format a mean with half the width of its interval, which has two significant digits.

    >>> number_with(12.345, 0.4567), number_with(1234.5, 78.9), number_with(0.5, 0.0)
    ('12.35 ± 0.46', '1234 ± 79', '0.5 ± 0')
    """
    if not half or not math.isfinite(half):
        return f"{format_number(mean)} ± {format_number(half)}"
    digits = max(0, 1 - math.floor(math.log10(half)))
    digits = min(digits, max(0, 5 - math.floor(math.log10(abs(mean) or half))))  # six digits of the mean are enough
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def plain_number(value: Any) -> float | None:
    """Return a value, or the mean of a statistic, as a number; JSON has infinities as texts."""
    found = value.get("mean") if isinstance(value, Mapping) else value
    return float(found) if isinstance(found, str) else found


def percent_cell(statistic: Mapping[str, Any] | None, sign: str = "-") -> Cell:
    """Return a cell with a mean and its interval in percent; with the sign "+", positive means have their sign too.

    If some seeds have no result, it says on how many seeds the mean stands.
    """
    mean = plain_number(statistic)
    if not statistic or mean is None or math.isnan(mean):
        return Cell(MISSING, None)
    text, half = format(100 * mean, f"{sign}.2f"), statistic.get("ci95")
    return Cell((text if half is None else f"{text} ± {100 * half:.2f}") + on_seeds(statistic), 100 * mean)


def on_seeds(statistic: Mapping[str, Any]) -> str:
    """Return on how many seeds a mean of summary.json stands, as in " (3 of 6 seeds)"; "" if all have a result."""
    per_seed = statistic.get("per_seed")
    return f" ({statistic['seeds']} of {len(per_seed)} seeds)" if "seeds" in statistic and per_seed else ""
