"""Tables as people and tools save them: the mark that divides the columns, and which texts are names."""

import re
from collections.abc import Sequence

MARKS = ",;\t"  # between the columns
DECIMAL_COMMA = re.compile(
    r"[+\u2212-]?(\d*,(\d{1,2}|\d{4,})|\d{4,},\d+|0,\d+)([eE][+-]?\d+)?|[+\u2212-]?\d*,\d+[eE][+-]?\d+"
)
"""A number with a decimal comma, and nothing else. The text 1,000 may be a thousand."""
_DATE = re.compile(r"([A-Z][a-z]{2,8},? )?[A-Z][a-z]{2,8}\.? \d{1,2}(,? \d{4}| \d).*")  # that begins with a letter


def marks_of(lines: Sequence[str]) -> list[str]:
    """Return the marks that divide each line into the same number of columns, the largest that any mark reaches.

    Marks between double quotes do not divide. If no mark is in all lines as often, only the first line counts.

    >>> marks_of(["a;b;c", "0,5;1,5;2"]), marks_of(["x,m;label", "0,5;1"]), marks_of(["label"])
    ([';'], [',', ';'], [','])
    """
    bare = [re.sub('"[^"]*"', "", line) for line in lines]
    counts = [{line.count(mark) for line in bare} for mark in MARKS]
    columns = [of.pop() if len(of) == 1 else 0 for of in counts]
    if not any(columns):
        return marks_of(lines[:1]) if lines[1:] else [MARKS[0]]
    return [mark for mark, found in zip(MARKS, columns) if found == max(columns)]


def is_number(text: str) -> bool:
    """Tell whether a text is a number, as Python reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_name(text: str) -> bool:
    """Tell whether a text can only be a name: no digit stands before its first letter, and it is no date.

    Other texts may be numbers or times that somebody has spelt in her own way.

    >>> list(filter(is_name, ["red", "type 2", "(blue)", "1,000", "<5", "0x1f", "1/2", "5 kg", "May 3, 2024"]))
    ['red', 'type 2', '(blue)']
    """
    first = next(filter(str.isalnum, text), "a")
    return first.isalpha() and not _DATE.fullmatch(text)
