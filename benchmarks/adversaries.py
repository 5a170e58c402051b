"""Run or read the studies of attackers (configs/attacked.py), and write what docs/adversaries.md quotes of them.

python -m benchmarks.adversaries --study=movement,rules,skewed,mnist [--workdir=DIR] [--write]
python -m benchmarks.adversaries --picture=docs/figures/adversaries.png

The studies lie in --workdir, by default in the folder that the variable MDFL_ADVERSARIES_DIR names. A finished study is
read, and an interrupted one goes on. With --write, results/adversaries_STUDY.json holds the values of each seed at the
end, from which the tables (`benchmarks/quoted_adversaries.py`) and the picture are made.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from benchmarks import measure
from benchmarks.papers.studies import Studies, Study, setting_of
from benchmarks.quoted_adversaries import picture
from configs import attacked
from mdfl_jax.cli import common
from mdfl_jax.core import program_cache
from mdfl_jax.core.errors import UserError
from mdfl_jax.report.style import save_picture

_STUDY = flags.DEFINE_string("study", "", "The studies: arguments of configs/attacked.py, several with commas.")
_WORKDIR = flags.DEFINE_string(
    "workdir", os.environ.get("MDFL_ADVERSARIES_DIR", "runs/adversaries"), "The folder of the studies' workdirs."
)
_PICTURE = flags.DEFINE_string("picture", "", "Draw the picture of the page into this file, and run nothing.")

EARLY = 1  # the evaluation whose contamination shows how fast it spreads: its value is the mean over the rounds before


def _per_seed(values: np.ndarray, decimals: int) -> list[float | None]:
    """Return numbers for a results file; those of runs that diverged are None."""
    return [round(float(value), decimals) if np.isfinite(value) else None for value in values]


def results_of(study: Study) -> dict[str, Any]:
    """Return the values of each seed at each point of a finished study, in per cent."""
    made = study.results()
    rows = []
    for point in study.points:
        at = made.index_of(point["id"])
        row = {"at": point["overrides"], "accuracy": _per_seed(100 * study.per_seed(**setting_of(point)), 2)}
        if point["messages_per_client"] is not None:  # None: all runs have diverged
            row["neighbours"] = round(point["messages_per_client"] / made.config["rounds"], 2)
        if point.get("contamination"):
            spread = made.array("contamination", at)
            row |= {"early": _per_seed(100 * spread[:, EARLY], 1), "late": _per_seed(100 * spread[:, -1], 1)}
        if (point.get("fell_back") or {}).get("mean") is not None:
            row["fell_back"] = round(100 * point["fell_back"]["mean"], 1)
        rows.append(row)
    evaluated = [int(at) for at in made.arrays["rounds"]]
    return {"study": made.config["name"], "seeds": made.seeds, "evaluated": evaluated, "rows": rows}


def main() -> int:
    """Run or read the studies and write their results, or draw the picture."""
    if _PICTURE.value:
        save_picture(picture, [Path(_PICTURE.value)], "picture")
        print(_PICTURE.value)
        return 0
    if not _STUDY.value:
        raise UserError("--study is ''; it must be arguments of configs/attacked.py, as in --study=movement,rules")
    common.setup_jax(program_cache.default_folder())
    from mdfl_jax.study import Interrupted  # imports JAX

    studies = Studies("", Path(_WORKDIR.value))
    try:
        for name in _STUDY.value.split(","):
            found = results_of(studies.of(attacked.get_config(name)))
            if measure.WRITE.value:
                path = measure.RESULTS / f"adversaries_{name}.json"
                path.write_text(json.dumps(found | measure.machine()) + "\n")
                print(path)
    except Interrupted:
        print(f"stopped; the same command goes on where {_WORKDIR.value} was left", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    common.run_command(main)
