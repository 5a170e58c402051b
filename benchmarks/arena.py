"""Judge a finished study of the arena (configs/arena.py): python -m benchmarks.arena --arena=DIR [--write]

Prints a row for each rule: its mean over all settings and seeds, its difference to the study's baseline and to
`waypoint` (in the plane `random_waypoint`), paired by seed, and in how many settings it is better or worse by intervals
that hold together over the whole study. With --write, results/arena_NAME.json holds them and the differences of all
settings, for the pages of docs/ (`python -m benchmarks.quote`); NAME is the study's, or --results_name.

With --beside=DIR and --beside_point=PATH=VALUE,... (several may be given) the rivals are also compared with points of
another finished study (`benchmarks/beside.py`).
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from benchmarks.beside import accuracy_with_data, beside, over_all, parsed
from benchmarks.measure import RESULTS, WRITE
from mdfl_jax.cli import common
from mdfl_jax.contrib.panels.rivals import (
    Matrix,
    finite_mean,
    matrix_of,
    measures,
    paired_differences,
    reference_of,
    tally,
)
from mdfl_jax.core.errors import UserError
from mdfl_jax.results.results import Results

_MADE = flags.DEFINE_string("arena", "", "The workdir of the finished study.")
_BESIDE = flags.DEFINE_string("beside", "", "The workdir of another finished study with the same seeds.")
_POINTS = flags.DEFINE_multi_string("beside_point", [], "Values of its settings: PATH=VALUE,PATH=VALUE.")
_NAME = flags.DEFINE_string("results_name", "", "Another name of the results file than the study's own.")

SECONDS = ("waypoint", "random_waypoint")
WITH_DATA = "at the end, of clients with data"


def with_data(made: Path, run: Results, matrix: Matrix) -> dict[str, np.ndarray]:
    """Return the accuracy [R, C, S] in per cent at the end of the clients that hold data, where there are relays."""
    if not run.config["network"].get("relays"):
        return {}
    return {WITH_DATA: accuracy_with_data(made, run)[matrix.point]}


def judged(values: np.ndarray, matrix: Matrix, reference: int) -> dict[str, Any]:
    """Return what one measure [R, C, S] says of all rivals beside a reference."""
    found = paired_differences(values, reference)
    better, worse, of = tally(found)
    rows = []
    for c, rival in enumerate(matrix.rivals):
        row: dict[str, Any] = {"rival": rival, "level": float(finite_mean(values[:, c].ravel()))}
        if c != reference and of[c]:
            known = np.isfinite(found.half[:, c])
            row |= {"difference": over_all(values[known, c] - values[known, reference])}
            row |= {"better": int(better[c]), "worse": int(worse[c]), "of": int(of[c])}
            row |= {"mean": found.mean[:, c].round(3).tolist(), "halves": found.half[:, c].round(3).tolist()}
        rows.append(row)
    return {"reference": matrix.rivals[reference], "rows": rows}


def results_of(made: Path) -> dict[str, Any]:
    """Return all that a finished study says of its rivals."""
    run = Results.read(made).shown()
    matrix = matrix_of(run)
    if matrix is None:
        raise UserError(f"--arena: {made} has no matrix of settings and rivals")
    values = with_data(made, run, matrix) | measures(run, matrix)
    references = [reference_of(run, matrix)]
    references += [matrix.rivals.index(second) for second in SECONDS if second in matrix.rivals[: references[0]]]
    return {
        "study": run.config["name"],
        "seeds": list(run.manifest["seeds"]),
        "rivals": matrix.axis.path,
        "settings": matrix.settings,
        **{key: run.manifest.get(key) for key in ("commit", "devices", "run_seconds")},
        "measures": {name: [judged(array, matrix, of) for of in references] for name, array in values.items()},
        "beside": [beside(made, run, matrix, Path(_BESIDE.value), parsed(text)) for text in _POINTS.value],
    }


def main() -> int:
    """Print, and write if asked, what a study says."""
    if not _MADE.value:
        raise UserError("--arena is ''; it must be the workdir of a finished study of the arena")
    found = results_of(Path(_MADE.value))
    for name, of_references in found["measures"].items():
        for of_reference in of_references:
            print(f"{name}, beside {of_reference['reference']} ({len(found['settings'])} settings)")
            for row in of_reference["rows"]:
                of = row.get("difference")
                told = (
                    f"{of['mean']:+.2f} +- {of['half']:.2f}; better {row['better']}, worse {row['worse']}" if of else ""
                )
                print(f"  {row['rival']:18} {row['level']:6.2f}  {told}")
    for other in found["beside"]:
        print(f"at the end, beside {other['point']} of {other['study']}")
        for row in other["rows"]:
            print(f"  {row['rival']:18} {row['difference']['mean']:+.2f} +- {row['difference']['half']:.2f}")
    if WRITE.value:
        path = RESULTS / f"{_NAME.value or found['study']}.json"
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(path)
    return 0


if __name__ == "__main__":
    common.run_command(main)
