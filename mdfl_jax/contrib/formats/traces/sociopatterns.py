"""Reads the contacts of people that SocioPatterns has measured (Cattuto and others, PLoS ONE 2010).

A line is a contact of two badges in a step of 20 seconds: ``t i j`` with the end t of the step in seconds, or ``i j t``
with the number t of the step. The classes of both people may follow. Badges are numbered in ascending order. Between
the columns are blanks, tabs or commas.
"""

from functools import partial
from pathlib import Path

from mdfl_jax.traces.reading import (
    MOST_CLIENTS,
    TRACE_FORMATS,
    TraceFormat,
    check_count,
    opened,
    parse_whole,
    rows_of,
    wrong,
)
from mdfl_jax.traces.trace import Contacts, of_names

STEP = 20  # seconds
_COLUMNS = (3, 5)  # without and with the classes


def read_sociopatterns(path: str | Path, time_first: bool) -> Contacts:
    """Read a list of contacts.

    Args:
      path: the file, plain or gzip.
      time_first: whether a line is ``t i j`` and not ``i j t``.

    Returns:
      The contacts. Each lasts the 20 seconds of its step: [t - 20, t) or [20 t, 20 (t + 1)). The class of a badge is
      that of its first contact.

    Raises:
      UserError: for a line of another form, times that go back, or a contact of a badge with itself.
    """
    end: list[float] = []
    pairs: list[tuple[int, int]] = []
    classes: dict[str, str] = {}
    before, names = 0, ("t", "i", "j") if time_first else ("i", "j", "t")
    with opened(path) as stream:
        for line, cells in rows_of(path, stream):
            words = " ".join(cells).split()
            if len(words) not in _COLUMNS:
                wrong(path, f"{len(words)} columns; they must be {' '.join(names)}, and perhaps two classes", line)
            row = {name: parse_whole(path, line, name, word) for name, word in zip(names, words)}
            if row["t"] < before:
                wrong(path, f"t goes back from {before} to {row['t']}", line)
            if row["i"] == row["j"]:
                wrong(path, f"badge {row['i']} is in contact with itself", line)
            before = row["t"]
            check_count(path, len(end) + 1, line, "contacts")
            end.append(row["t"] if time_first else STEP * (row["t"] + 1))
            pairs.append((row["i"], row["j"]))
            for badge, of in zip(pairs[-1], words[len(names) :]):
                classes.setdefault(str(badge), of)
    if not pairs:
        wrong(path, "it holds no contacts")
    badges = {badge for pair in pairs for badge in pair}
    if len(badges) > MOST_CLIENTS:
        wrong(path, f"it has more than {MOST_CLIENTS:,} badges")
    kinds = {str(badge): classes.get(str(badge), "") for badge in badges} if classes else {}
    name = "sociopatterns" if time_first else "sociopatterns_ijt"
    return of_names([t - STEP for t in end], end, pairs, str(path), name, kinds)


TRACE_FORMATS.register("sociopatterns", doc="Contacts t i j in steps of 20 seconds, perhaps with classes.")(
    TraceFormat(partial(read_sociopatterns, time_first=True))
)
TRACE_FORMATS.register("sociopatterns_ijt", doc="Contacts i j t, where t counts steps of 20 seconds.")(
    TraceFormat(partial(read_sociopatterns, time_first=False))
)
