"""The table of the study of personal models (`benchmarks/personal.py`), which docs/personal.md quotes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.quoted import markdown, results
from benchmarks.quoted_clocks import marks
from configs.personal import BODY

STILL = "static"


def called(row: dict[str, Any]) -> str:
    """Return what a row is of, but for its movement."""
    more = ", head" if row["shared"] == BODY else ""
    steps = row["evaluate_after"]
    return f"`{row['algorithm']}`{more}{f', {steps} steps' if steps else ''}"


def table() -> list[str]:
    """Return personal accuracies at the end and those of the worst decile, with marks where movement changes them."""
    rows = {(called(row), row["movement"]): row for row in results("personal")["rows"]}
    methods, movements = (list(dict.fromkeys(key[axis] for key in rows)) for axis in (0, 1))
    of_marks = {key: row | {"accuracy": row["personal"]} for key, row in rows.items()}
    differ = marks(of_marks, [(key, (key[0], STILL)) for key in rows if key[1] != STILL and key[0] != "`local_only`"])

    def cell(key: tuple[str, str]) -> str:
        personal, decile, of_all = (np.mean(rows[key][name]) for name in ("personal", "decile", "all"))
        return f"{personal:.1f}{differ.get(key, '')}, {decile:.1f}, {of_all:.1f}"

    lines = [[method, *(cell((method, at)) for at in movements)] for method in methods]
    return markdown(["personal, worst decile, all labels (%)", *(f"`{at}`" for at in movements)], lines)


TABLES: dict[str, Callable[[], list[str]]] = {"personal": table}
