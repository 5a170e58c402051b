"""Run or read the study of personal models (configs/personal.py), of which docs/personal.md quotes a table.

python -m benchmarks.personal [--workdir=DIR] [--write]

A finished study is read, and an interrupted one goes on. With --write, results/personal.json holds of each seed, in per
cent at the end: the mean over the clients of their personal accuracy, that of the worst decile of the clients, and the
mean of their accuracy on all labels.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from benchmarks import measure
from benchmarks.papers.studies import Studies
from configs import personal
from mdfl_jax.cli import common
from mdfl_jax.core import program_cache
from mdfl_jax.metrics.over_clients import worst_decile
from mdfl_jax.results import Results

_WORKDIR = flags.DEFINE_string("workdir", "runs", "The folder of the study's workdir.")

FIELDS = {
    "algorithm": "algorithm.name",
    "shared": "model.shared",
    "evaluate_after": "personal.evaluate_after",
    "movement": "network.mobility",
}


def rows_of(found: Results) -> list[dict[str, Any]]:
    """Return of each point its settings, and its accuracies in per cent at the end by seed."""

    def of_seeds(values: Any) -> list[float]:
        return [round(100 * float(value), 2) for value in values]

    rows = []
    for point, outcome in enumerate(found.outcomes):
        personal_accuracy, accuracy = (found.history(point, name) for name in ("personal_accuracy", "accuracy"))
        assert personal_accuracy is not None
        assert accuracy is not None
        own = personal_accuracy[:, -1]  # [S, N]; a client without samples has none
        rows.append(
            {name: outcome["overrides"][path] for name, path in FIELDS.items()}
            | {
                "personal": of_seeds(np.nanmean(own, axis=1)),
                "decile": of_seeds(worst_decile(clients[~np.isnan(clients)]) for clients in own),
                "all": of_seeds(accuracy[:, -1].mean(axis=1)),
            }
        )
    return rows


def main() -> int:
    """Run or read the study and write its results."""
    common.setup_jax(program_cache.default_folder())
    from mdfl_jax.study import Interrupted  # imports JAX

    try:
        made = Studies("", Path(_WORKDIR.value)).of(personal.get_config()).results()
    except Interrupted:
        print(f"stopped; the same command goes on where {_WORKDIR.value} was left", file=sys.stderr)
        return 130
    held = {"study": "personal", "seeds": len(made.seeds), "rows": rows_of(made)} | measure.machine()
    if measure.WRITE.value:
        path = measure.RESULTS / "personal.json"
        path.write_text(json.dumps(held) + "\n")
        print(path)
    return 0


if __name__ == "__main__":
    common.run_command(main)
