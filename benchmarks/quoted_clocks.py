"""The tables of the studies of clients with clocks (`benchmarks/clocks_study.py`)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.quoted import markdown, results
from mdfl_jax.results.statistics import simultaneous

ROUNDS, CLOCKS = "in rounds", "dpsgd"  # rows: D-PSGD that waits for the slowest client, and D-PSGD with clocks
PACED = "in rounds, moving on"  # the former with as many metres a second as the latter


def cell(row: dict[str, Any], mark: str = "") -> str:
    """Return a row's mean accuracy with a mark, and the median of the seconds to the target."""
    level = np.array(row["accuracy"], float)
    seconds = float(np.median([np.inf if value is None else value for value in row["seconds"]]))
    said = f"{seconds:,.0f} s" if np.isfinite(seconds) else "later"
    if lost := int(np.isnan(level).sum()):
        return f"{lost} of {len(level)} diverged, {said}"
    return f"{level.mean():.1f}{mark}, {said}"


def marks(rows: dict[Any, dict[str, Any]], pairs: list[tuple[Any, Any]]) -> dict[Any, str]:
    """Return + or - for each pair of rows whose accuracies differ, by intervals that hold together."""
    accuracy = {key: np.array(row["accuracy"], float) for key, row in rows.items()}
    found = simultaneous(np.stack([accuracy[one] - accuracy[other] for one, other in pairs], axis=1))
    told = zip(pairs, found.mean, found.half)
    return {one: " +" if mean > half else " -" if mean < -half else "" for (one, _), mean, half in told}


def table() -> list[str]:
    """Return accuracies at the end, with marks where they differ from those in rounds, and seconds to the target."""
    rows = {(row["algorithm"], row["movement"]): row for row in results("clocks_study")["rows"]}
    algorithms, movements = (list(dict.fromkeys(key[axis] for key in rows)) for axis in (0, 1))
    differ = marks(rows, [(key, (ROUNDS, key[1])) for key in rows if key[0] != ROUNDS])
    names = {ROUNDS: "`dpsgd` in rounds", PACED: "the same, moving 16 times", CLOCKS: "`dpsgd` with clocks"}
    lines = [
        [names.get(name, f"`{name}`"), *(cell(rows[name, at], differ.get((name, at), "")) for at in movements)]
        for name in algorithms
    ]
    return markdown(["algorithm", *(f"`{at}`" for at in movements)], lines)


def radio_table() -> list[str]:
    """Return accuracies over a slow channel and seconds, by model, with marks where they differ from the first row."""
    found = results("clocks_radio")["rows"]
    rows = {((row["algorithm"], row["short_contact"], row["transmission"]), row["model"]): row for row in found}
    messages, models = (list(dict.fromkeys(key[axis] for key in rows)) for axis in (0, 1))
    differ = marks(rows, [(key, (messages[0], key[1])) for key in rows if key[0] != messages[0]])
    lines = [
        [
            f"`{one[0]}`, `{one[1]}`" if one[0] != "pame" else f"`pame`, {100 * one[2]:g} % of the coordinates",
            *(cell(rows[one, at], differ.get((one, at), "")) if (one, at) in rows else "-" for at in models),
        ]
        for one in messages
    ]
    return markdown(["algorithm, `cost.short_contact`", *(f"`{at}`" for at in models)], lines)


TABLES: dict[str, Callable[[], list[str]]] = {"clocks_study": table, "clocks_radio": radio_table}
