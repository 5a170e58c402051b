"""The table of the studies of clients with clocks (`benchmarks/clocks_study.py`)."""

from collections.abc import Callable

import numpy as np

from benchmarks.quoted import markdown, results
from mdfl_jax.results.statistics import simultaneous

ROUNDS, CLOCKS = "in rounds", "dpsgd"  # rows: D-PSGD that waits for the slowest client, and D-PSGD with clocks
PACED = "in rounds, moving on"  # the former with as many metres a second as the latter


def table() -> list[str]:
    """Return accuracies at the end, with marks where they differ from those in rounds, and seconds to the target."""
    rows = {(row["algorithm"], row["movement"]): row for row in results("clocks_study")["rows"]}
    algorithms, movements = (list(dict.fromkeys(key[axis] for key in rows)) for axis in (0, 1))
    accuracy = {key: np.array(row["accuracy"], float) for key, row in rows.items()}
    pairs = [(algorithm, at) for algorithm in algorithms if algorithm != ROUNDS for at in movements]
    found = simultaneous(np.stack([accuracy[pair] - accuracy[ROUNDS, pair[1]] for pair in pairs], axis=1))
    marks = {
        pair: " +" if mean > half else " -" if mean < -half else ""
        for pair, mean, half in zip(pairs, found.mean, found.half)
    }

    def cell(algorithm: str, movement: str) -> str:
        row = rows[algorithm, movement]
        seconds = float(np.median([np.inf if value is None else value for value in row["seconds"]]))
        said = f"{seconds:,.0f} s" if np.isfinite(seconds) else "later"
        level = accuracy[algorithm, movement]
        if lost := int(np.isnan(level).sum()):
            return f"{lost} of {len(level)} diverged, {said}"
        return f"{level.mean():.1f}{marks.get((algorithm, movement), '')}, {said}"

    names = {ROUNDS: "`dpsgd` in rounds", PACED: "the same, moving 16 times", CLOCKS: "`dpsgd` with clocks"}
    lines = [[names.get(name, f"`{name}`"), *(cell(name, at) for at in movements)] for name in algorithms]
    return markdown(["algorithm", *(f"`{at}`" for at in movements)], lines)


TABLES: dict[str, Callable[[], list[str]]] = {"clocks_study": table}
