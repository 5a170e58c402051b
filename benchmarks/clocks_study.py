"""Run or read the studies of clients with clocks (configs/clocks.py), of which docs/time.md quotes a table.

python -m benchmarks.clocks_study [--studies=synchronous,paced,asynchronous] [--workdir=DIR] [--write]

The studies lie in --workdir. A finished study is read, and an interrupted one goes on. With --write,
results/clocks_study.json holds of each seed the accuracy at the end and the simulated seconds to the target; what it
holds of studies that --studies leaves out stays there.
"""

import json
import sys
from pathlib import Path
from typing import Any

from absl import flags

from benchmarks import measure
from benchmarks.papers.studies import Studies
from benchmarks.quoted_clocks import PACED, ROUNDS
from configs import clocks
from mdfl_jax.cli import common

_WORKDIR = flags.DEFINE_string("workdir", "runs/clocks", "The folder of the studies' workdirs.")

_STUDIES = flags.DEFINE_list("studies", ["synchronous", "paced", "asynchronous"], "Studies of configs/clocks.py.")

NAME, MOVEMENT = "algorithm.name", "network.mobility"


def rows_of(summary: dict[str, Any], rounds: str) -> list[dict[str, Any]]:
    """Return of each point of a study the accuracies in per cent and the seconds to the target, by seed.

    A study without algorithms is one of rounds, and ``rounds`` is its name in the table.
    """
    return [
        {
            "algorithm": point["overrides"].get(NAME, rounds),
            "movement": point["overrides"][MOVEMENT],
            "accuracy": [value and round(100 * value, 2) for value in point["final_accuracy"]["per_seed"]],
            "seconds": point["seconds_to_target_per_seed"],
        }
        for point in summary["points"]
    ]


def main() -> int:
    """Run or read the studies and write their results."""
    common.setup_jax(common.default_cache())
    from mdfl_jax.study import Interrupted  # imports JAX

    studies, rows, seeds = Studies("", Path(_WORKDIR.value)), [], 0
    try:
        for name in _STUDIES.value:
            made = studies.of(clocks.get_config(name)).results()
            rows += rows_of(made.summary, PACED if name == "paced" else ROUNDS)
            seeds = len(made.seeds)
    except Interrupted:
        print(f"stopped; the same command goes on where {_WORKDIR.value} was left", file=sys.stderr)
        return 130
    if measure.WRITE.value:
        path = measure.RESULTS / "clocks_study.json"
        new = {(row["algorithm"], row["movement"]) for row in rows}
        kept = json.loads(path.read_text())["rows"] if path.exists() else []
        rows = sorted(
            [*(row for row in kept if (row["algorithm"], row["movement"]) not in new), *rows],
            key=lambda row: [ROUNDS, PACED].index(row["algorithm"]) if row["algorithm"] in (ROUNDS, PACED) else 2,
        )
        path.write_text(json.dumps({"study": "clocks", "seeds": seeds, "rows": rows} | measure.machine()) + "\n")
        print(path)
    return 0


if __name__ == "__main__":
    common.run(main)
