"""Run or read the studies of privacy (configs/private.py), of which docs/privacy.md quotes tables.

python -m benchmarks.private_study [--studies=gradients,messages,mnist] [--workdir=DIR] [--write]

The studies lie in --workdir. A finished study is read, and an interrupted one goes on. With --write,
results/private_study.json holds of each point and seed what `MEASURED` names, at the end; what it holds of studies that
--studies leaves out stays there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from benchmarks import measure
from benchmarks.papers.studies import Studies
from configs import private
from mdfl_jax.cli import common
from mdfl_jax.core import program_cache
from mdfl_jax.results.results import Results

_WORKDIR = flags.DEFINE_string("workdir", "runs/private", "The folder of the studies' workdirs.")
_STUDIES = flags.DEFINE_list("studies", ["gradients", "messages"], "Studies of configs/private.py.")

MEASURED = {"epsilon": 3, "released_steps": 2, "epsilon_pairs": 3}
"""What is kept of each seed, with the decimals: the mean over the mobile clients, and over the static ones."""


def rows_of(study: Results, name: str) -> list[dict[str, Any]]:
    """Return of each point of a study the accuracies in per cent and what clients have spent, by seed."""
    rows = []
    for p, outcome in enumerate(study.outcomes):
        config = {path: study.value(p, path) for path in ("algorithm.name", "network.mobility")}
        row = {"study": name, "algorithm": config["algorithm.name"], "movement": config["network.mobility"]}
        row |= {"target": study.value(p, "privacy.target_epsilon")}
        row |= {"accuracy": [value and round(100 * value, 2) for value in outcome["final_accuracy"]["per_seed"]]}
        mobile = np.asarray(study.array("is_mobile", p), bool)  # [S, N]
        if row["target"]:
            for metric, decimals in MEASURED.items():
                if study.has(p, metric):
                    row[metric] = by_kind(np.asarray(study.array(metric, p), float)[:, -1], mobile, decimals)
        rows.append(row)
    return rows


def by_kind(values: np.ndarray, mobile: np.ndarray, decimals: int) -> dict[str, list[float]]:
    """Return the mean of [S, N] over the mobile and over the static clients; of pairs [S, N, N] towards all others."""
    if values.ndim == 3:
        values = values.sum(2) / (values.shape[2] - 1)
    kinds = {"mobile": mobile, "static": ~mobile}
    return {kind: np.average(values, axis=1, weights=of).round(decimals).tolist() for kind, of in kinds.items()}


def main() -> int:
    """Run or read the studies and write their results."""
    common.setup_jax(program_cache.default_folder())
    from mdfl_jax.study import Interrupted  # imports JAX

    studies, rows = Studies("", Path(_WORKDIR.value)), []
    try:
        for name in _STUDIES.value:
            rows += rows_of(studies.of(private.get_config(name)).results(), name)
    except Interrupted:
        print(f"stopped; the same command goes on where {_WORKDIR.value} was left", file=sys.stderr)
        return 130
    if measure.WRITE.value:
        path, about = measure.RESULTS / "private_study.json", measure.machine()
        before = json.loads(path.read_text()) if path.exists() else {"rows": [], "made": {}}
        rows = [row for row in before["rows"] if row["study"] not in _STUDIES.value] + rows
        made = before["made"] | dict.fromkeys(_STUDIES.value, about)  # each study may be of another day
        path.write_text(json.dumps({"study": "private_study", "rows": rows, "made": made}) + "\n")
        print(path)
    return 0


if __name__ == "__main__":
    common.run_command(main)
