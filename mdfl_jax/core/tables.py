"""Tables as people and tools save them: the mark that divides the columns, and numbers in other spellings."""

import re
from collections.abc import Sequence

MARKS = ",;\t"  # between the columns
_SIGN, _EXPONENT, _MONEY = r"[+\u2212-]?", r"([eE][+-]?\d+)?", r"[%$\u20ac\u00a3]"
DECIMAL_COMMA = re.compile(
    rf"{_SIGN}(\d*,(\d{{1,2}}|\d{{4,}})|\d{{4,}},\d+|0,\d+){_EXPONENT}|{_SIGN}\d*,\d+[eE][+-]?\d+"
)
"""A number with a decimal comma, and nothing else. The text 1,000 may be a thousand."""
OTHER_NUMBER = re.compile(
    rf"{_SIGN}\d*(,\d+)+(\.\d+)?{_EXPONENT}|{_SIGN}\d{{1,3}}(\.\d{{3}})+(,\d+)?|\u2212\d+(\.\d+)?"
    rf"|{_SIGN}\d+([\s'\u2019_]\d{{3}})+([.,]\d+)?|{_SIGN}\d+([.,]\d+)?\s?{_MONEY}|{_MONEY}\s?{_SIGN}\d+([.,]\d+)*"
)
"""A number that is spelt in another way than 1234.5, as 0,126 or 1,000 or 12 %."""
WITH_UNIT = re.compile(r"[+-]?\d+([.,]\d+)?\s?[a-zA-Z\u00b5\u03bc\u00b0/]{1,4}")
"""What is a number with a unit if all cells of a column are so."""
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}.*|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}.*|\d{4}-(0[1-9]|1[0-2])"
    r"|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}.*|([A-Z][a-z]{2,8} )?[A-Z][a-z]{2,8} \d{1,2}(, \d{4}| \d).*"
    r"|\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[APap][Mm])?|-?\d+ days?( .*)?"
)
"""A date, a time or a duration."""


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
