"""Text tables as people and tools save them: the form of their rows, and which cells are names, numbers or dates.

`Rows` reads every table of text: traces, contact lists, graphs, partitions and, before pandas, tables of samples.
"""

import csv
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NoReturn

from mdfl_jax.core.errors import UserError

MARKS = ",;\t"  # separators of columns, besides blanks
_ORDER = "\t; ,"  # the order of the trials: a comma may be in a number, and a blank in a cell
COMMENT = ("#", "%")  # the beginnings of comments
HEAD = 50  # rows from which the form of a table is found
EXACT = 2.0**53  # double precision has all whole numbers up to this size
BELOW = "a whole number must be below 2^53, up to which floats tell all apart"
DECIMAL_COMMA = re.compile(
    r"[+\u2212-]?(\d*,(\d{1,2}|\d{4,})|\d{4,},\d+|0,\d+)([eE][+-]?\d+)?|[+\u2212-]?\d*,\d+[eE][+-]?\d+"
)
"""A number with a decimal comma, and nothing else. The text 1,000 may be a thousand."""
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_DATE = re.compile(r"([A-Z][a-z]{2,8},? )?[A-Z][a-z]{2,8}\.? \d{1,2}(,? \d{4}| \d).*")  # dates that begin with a letter
_DAY_OR_MONTH = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:,? +|T)(\d{1,2}:\d{2}\S*)")
Refuse = Callable[[str, int], NoReturn]  # (what is wrong, the line or 0): raises a `UserError` that names the file


def marks_of(lines: Sequence[str]) -> list[str]:
    """Return the marks that may separate the columns of a table: one, or several that fit the lines equally well.

    Tabs, semicolons, blanks and commas are tried in this order. The first mark that cuts all lines into the same number
    of cells is taken if the cells have no other mark, except for decimal commas. Marks between double quotes do not
    count. If no mark occurs equally often in all lines, only the first line decides.

    >>> marks_of(["a;b;c", "0,5;1,5;2"]), marks_of(["x,m;label", "0,5;1"]), marks_of(["a b", "1  2"])
    ([';'], [',', ';'], [' '])
    """
    bare = [re.sub('"[^"]*"', '""', line) for line in lines]
    cut = {mark: [_cut(line, mark) for line in bare] for mark in _ORDER}
    even = [mark for mark in _ORDER if len({*map(len, cut[mark])}) == 1 and len(cut[mark][0]) > 1]
    for mark in even:
        if all(_is_clean(cell, mark) for cells in cut[mark] for cell in cells):
            return [mark]
    most = max((len(cut[mark][0]) for mark in even if mark != " "), default=0)
    if not most:
        return marks_of(lines[:1]) if lines[1:] else [MARKS[0]]
    return [mark for mark in MARKS if mark in even and len(cut[mark][0]) == most]


def _cut(line: str, mark: str) -> list[str]:
    return line.split() if mark == " " else line.strip("\r\n").split(mark)


def _is_clean(cell: str, mark: str) -> bool:
    """Tell whether a cell has no mark except a decimal comma; "0 ,1" has two cells."""
    is_decimal = bool(_COMMA.fullmatch(cell.strip())) and (mark != " " or cell[0] != ",")
    return is_decimal or not any(other in cell for other in MARKS if other != mark)


class Rows:
    """The rows of a table of text, read one after another as (line, cells without outer blanks).

    The first `HEAD` rows show whether commas, semicolons, tabs or blanks separate the columns. Cells may be in double
    quotes. Decimal commas become points. Blank lines, comments and repeated headers are left out. The comment just
    before the first row may be the header. After the first row, a line such as "#ff0000,1,2" is a row and no comment if
    it has as many cells as a row, the first column has names, and no blank follows the mark.

    Args:
      lines: the lines of the text.
      refuse: raises the error about a line.
      has_header: whether the first row is a header, unless a comment is the header; None: it is if all its cells are
        names.
      may_count: whether the first row may be a single number, a count of rows.

    Attributes:
      header: the names of the columns; [] without a header.
      header_text: the line of the header, without the mark of a comment.
      mark: the separator of the columns; " ": blanks.
      line: the line that was read last, from 1.
      again: the number of repeated headers so far.
      comments: the number of comments so far that had as many cells as a row; before the first row, only of comments
        without names.
      decimal_comma: whether the table has decimal commas.
    """

    def __init__(
        self, lines: Iterable[str], refuse: Refuse, has_header: bool | None = None, may_count: bool = False
    ) -> None:
        self.refuse, self.may_count, self.line, self.again, self.comments = refuse, may_count, 0, 0, 0
        self._above, self.header_text = [""], ""
        self._rest = self._content(lines)
        self._head = list(itertools.islice(self._rest, HEAD))
        texts = [text for _, text, is_marked in self._head if not is_marked] or [""]
        rows = texts[1:] if texts[1:] and is_number(texts[0]) else texts
        marks = marks_of(rows)
        if len(marks) > 1:
            shown = " or ".join(map(repr, marks))
            refuse(f"{shown} may divide its columns; allowed: names and cells without the other one", 0)
        self.mark, self.header = marks[0], list[str]()
        first, above = self._cut(texts[0]), [self._cut(text) for text in self._above]
        if len(above[-1]) == len(first) and is_header(above[-1]) and not is_header(first):
            self.header, self.header_text = above[-1], self._above[-1]
        elif is_header(first) if has_header is None else has_header and any(first):
            self.header, self.header_text = first, texts[0].strip("\r\n ")  # a tab may stand before the first name
            del self._head[0]
        if not self.header and len(first) > 1:
            self.comments = sum(len(cells) == len(first) and not is_header(cells) for cells in above)
        self._again = _without_mark(self.header_text)
        cut = [self._cut(text) for text in rows if not self._is_header(text)]
        cells = list(itertools.chain.from_iterable(cut))
        self._width, firsts = len(self._cut(rows[0])), [row[0] for row in cut if row]
        self._has_names = not firsts or not all(map(_is_value, firsts))
        self.decimal_comma = any(DECIMAL_COMMA.fullmatch(cell) for cell in cells)
        self._has_points = any(_POINT.fullmatch(cell) for cell in cells)

    @property
    def notes(self) -> list[str]:
        """The parts of the text that were changed or left out, in words."""
        comma, again = "with decimal commas", f"its header is left out in {self.again} later rows"
        left_out = f"{self.comments:,} lines that begin with {' or '.join(COMMENT)} are left out"
        return [comma] * self.decimal_comma + [again] * bool(self.again) + [left_out] * bool(self.comments)

    def texts(self) -> Iterator[str]:
        """Yield the lines of the rows after the header, unchanged."""
        for line, text, is_marked in itertools.chain(self._head, self._rest):
            self.line = line
            fits = is_marked and self._width > 1 and len(self._cut(text)) == self._width
            if self._is_header(text):
                self.again += 1
            elif not is_marked or (fits and self._has_names and text.lstrip("".join(COMMENT))[:1] != " "):
                yield text
            else:
                self.comments += fits

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows after the header.

        Raises:
          UserError: for a row of another length, or a row with a decimal point in a table with decimal commas.
        """
        width, of, is_count = len(self.header), "the first line", False
        for cells in self._all_cells():
            if not width or is_count:
                is_count = self.may_count and not width and len(cells) == 1
                width, of = len(cells), "the first line" if self.line == 1 else f"line {self.line}"
            if len(cells) != width:
                self.refuse(f"{len(cells)} columns where {of} has {width}", self.line)
            yield self.line, self._with_points(cells)

    def _all_cells(self) -> Iterator[list[str]]:
        if self.mark == " ":
            yield from map(self._cut, self.texts())
            return
        try:
            for cells in csv.reader(self.texts(), delimiter=self.mark, skipinitialspace=True):
                yield [cell.strip() for cell in cells]
        except csv.Error as error:
            self.refuse(f"it is not a table ({error})", self.line)

    def _content(self, lines: Iterable[str]) -> Iterator[tuple[int, str, bool]]:
        """Yield (line, text, whether it begins as a comment) from the first row on, without blank lines.

        Within quotes no line is blank or begins as a comment.
        """
        is_quoted, is_first = False, True
        for line, text in enumerate(lines, 1):
            is_marked = not is_quoted and text.startswith(COMMENT)
            if is_marked and is_first:
                self._above.append(_without_mark(text))
            elif is_quoted or text.strip():
                is_quoted ^= not is_marked and text.count('"') % 2 == 1
                is_first = False
                yield line, text, is_marked

    def _is_header(self, text: str) -> bool:
        return bool(self._again) and _without_mark(text) == self._again

    def _cut(self, text: str) -> list[str]:
        """Return the cells of one line."""
        if self.mark == " ":
            return next(csv.reader([" ".join(text.split())], delimiter=" "), []) if '"' in text else text.split()
        try:
            return [cell.strip() for cell in next(csv.reader([text], delimiter=self.mark, skipinitialspace=True), [])]
        except csv.Error:
            return []

    def _with_points(self, cells: list[str]) -> list[str]:
        """Return the cells of a row with points in place of decimal commas."""
        for k, cell in enumerate(cells):
            if "," in cell and (_COMMA if self.decimal_comma else DECIMAL_COMMA).fullmatch(cell):
                self.decimal_comma = True
                cells[k] = cell.replace(",", ".")
            elif not self.decimal_comma or not _POINT.fullmatch(cell):
                continue
            if self._has_points or cells[k] == cell:
                self.refuse(f"{cell!r}: some numbers have decimal points and others decimal commas", self.line)
        return cells


def _without_mark(text: str) -> str:
    return text.strip().lstrip("".join(COMMENT)).strip()


def is_number(text: str) -> bool:
    """Tell whether a text is a number, as Python reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_name(text: str) -> bool:
    """Tell whether a text can only be a name: it is no date, and no digit stands before its first letter.

    Other texts may be numbers or times in an unusual spelling.

    >>> list(filter(is_name, ["red", "type 2", "(blue)", "1,000", "<5", "0x1f", "1/2", "5 kg", "May 3, 2024"]))
    ['red', 'type 2', '(blue)']
    """
    first = next(filter(str.isalnum, text), "a")
    return first.isalpha() and not _DATE.fullmatch(text)


def is_header(row: Sequence[str]) -> bool:
    """Tell whether a row names columns: none of its cells is a number or a date."""
    return any(row) and not any(map(_is_value, row))


def _is_value(cell: str) -> bool:
    return is_number(cell) or bool(_COMMA.fullmatch(cell)) or is_date(cell)


def is_date(text: str) -> bool:
    """Tell whether a text is a date with a time, even if its day and month are ambiguous."""
    try:
        return date_seconds(text) is not None
    except UserError:
        return True


def date_seconds(text: str) -> float | None:
    """Return the seconds since 1970 of a date with a time, in UTC if it names no zone; None for another text.

    The year is first (ISO 8601, also with slashes) or last. If it is last, the day is before the month with points as
    separators, and otherwise the number that cannot be a month is the day.

    Raises:
      UserError: for a date whose day and month are ambiguous.

    >>> date_seconds("2024-02-27 00:00:10"), date_seconds("27/02/2024 00:00:10"), date_seconds("27.02.2024 00:00:10")
    (1708992010.0, 1708992010.0, 1708992010.0)
    """
    text = text.strip()
    if found := _DAY_OR_MONTH.fullmatch(text):
        day, month = int(found[1]), int(found[3])
        if found[2] != "." and day != month and day <= 12 and month <= 12:
            raise UserError(f"{text!r} may begin with its day or with its month; it must be as 2024-12-31 15:00:00")
        if found[2] != "." and month > 12:
            day, month = month, day
        text = f"{found[4]}-{month:02}-{day:02} {'0' * (found[5][1] == ':')}{found[5]}"
    if len(text) < 10 or not text[:4].isdecimal() or text[4] not in "-/":
        return None
    try:
        when = datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
