"""Judge a finished study of the arena (configs/arena.py): python -m benchmarks.arena --arena=DIR [--write]

Prints a row for each rule: its mean over all settings and seeds, its difference to the study's baseline and to
`waypoint` (in the plane `random_waypoint`), paired by seed, and in how many settings it is better or worse by intervals
that hold together over the whole study. With --write, results/arena_NAME.json holds them and the differences of all
settings, for the pages of docs/ (`python -m benchmarks.quote`); NAME is the study's, or --results_name.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from benchmarks.measure import RESULTS, WRITE
from mdfl_jax.commands import common
from mdfl_jax.errors import UserError
from mdfl_jax.outcomes import t_quantile
from mdfl_jax.report.read import Run, read_workdir
from mdfl_jax.report.rivals import Matrix, differences, matrix_of, mean_of_known, measures, reference_of, tally
from mdfl_jax.results import Results

_MADE = flags.DEFINE_string("arena", "", "The workdir of the finished study.")
_NAME = flags.DEFINE_string("results_name", "", "Another name of the results file than the study's own.")

SECONDS = ("waypoint", "random_waypoint")
WITH_DATA = "at the end, of clients with data"


def over_all(values: np.ndarray) -> dict[str, float]:
    """Return the mean of values [R, S] over settings and seeds, and half of its 95 % interval over the seeds."""
    of_seed = values.mean(axis=0)
    half = t_quantile(len(of_seed) - 1) * of_seed.std(ddof=1) / np.sqrt(len(of_seed))
    return {"mean": float(of_seed.mean()), "half": float(half)}


def with_data(made: Path, run: Run, matrix: Matrix) -> dict[str, np.ndarray]:
    """Return the accuracy [R, C, S] in per cent at the end of the clients that hold data, where there are relays."""
    network = run.config["network"]
    if not network.get("relays"):
        return {}
    accuracy = Results.load(made).accuracy.values[:, :, -1, : network["num_clients"] - network["relays"]]
    return {WITH_DATA: 100 * accuracy.mean(axis=-1)[matrix.point]}


def judged(values: np.ndarray, matrix: Matrix, reference: int) -> dict[str, Any]:
    """Return what one measure [R, C, S] says of all rivals beside a reference."""
    found = differences(values, reference)
    better, worse, of = tally(found)
    rows = []
    for c, rival in enumerate(matrix.rivals):
        row: dict[str, Any] = {"rival": rival, "level": float(mean_of_known(values[:, c].ravel()))}
        if c != reference and of[c]:
            known = np.isfinite(found.half[:, c])
            row |= {"difference": over_all(values[known, c] - values[known, reference])}
            row |= {"better": int(better[c]), "worse": int(worse[c]), "of": int(of[c])}
            row |= {"mean": found.mean[:, c].round(3).tolist(), "halves": found.half[:, c].round(3).tolist()}
        rows.append(row)
    return {"reference": matrix.rivals[reference], "rows": rows}


def results_of(made: Path) -> dict[str, Any]:
    """Return all that a finished study says of its rivals."""
    run = read_workdir(made)
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
    if WRITE.value:
        path = RESULTS / f"{_NAME.value or found['study']}.json"
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(path)
    return 0


if __name__ == "__main__":
    common.run(main)
