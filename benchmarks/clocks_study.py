"""Run or read the studies of clients with clocks (configs/clocks.py), of which docs/time.md quotes tables.

python -m benchmarks.clocks_study [--studies=synchronous,paced,asynchronous] [--workdir=DIR] [--write]

The studies lie in --workdir. A finished study is read, and an interrupted one goes on. With --write,
results/clocks_study.json and, of `radio` and `radio_pame`, results/clocks_radio.json hold of each seed the accuracy at
the end and the simulated seconds to the target; what they hold of studies that --studies leaves out stays there.
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
from mdfl_jax.core import program_cache

_WORKDIR = flags.DEFINE_string("workdir", "runs/clocks", "The folder of the studies' workdirs.")

_STUDIES = flags.DEFINE_list("studies", ["synchronous", "paced", "asynchronous"], "Studies of configs/clocks.py.")

NAME, MOVEMENT, SHORT, SHARE = "algorithm.name", "network.mobility", "cost.short_contact", "algorithm.transmission"


def rows_of(summary: dict[str, Any], study: str) -> list[dict[str, Any]]:
    """Return of each point of a study the accuracies in per cent and the seconds to the target, by seed.

    A point is called by its settings. A study in rounds has no algorithms, and its rows have its own name.
    """
    rounds = {"synchronous": ROUNDS, "paced": PACED}.get(study, "")

    def called(set_here: dict[str, Any]) -> dict[str, Any]:
        if study.startswith("radio"):
            is_pame, short = study == "radio_pame", set_here.get(SHORT, "drop")
            sent = {"algorithm": "pame" if is_pame else "dpsgd", "short_contact": short}
            return {"model": set_here["model.name"]} | sent | {"transmission": set_here.get(SHARE, 1)}
        return {"algorithm": set_here.get(NAME, rounds), "movement": set_here[MOVEMENT]}

    return [
        called(point["overrides"])
        | {
            "accuracy": [value and round(100 * value, 2) for value in point["final_accuracy"]["per_seed"]],
            "seconds": point["seconds_to_target_per_seed"],
        }
        for point in summary["points"]
    ]


def setting_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a row is of, without what was measured."""
    return tuple(value for key, value in row.items() if key not in ("accuracy", "seconds"))


def main() -> int:
    """Run or read the studies and write their results."""
    common.setup_jax(program_cache.default_folder())
    from mdfl_jax.study import Interrupted  # imports JAX

    studies, rows = Studies("", Path(_WORKDIR.value)), {}
    try:
        for name in _STUDIES.value:
            made = studies.of(clocks.get_config(name)).results()
            rows[name], seeds = rows_of(made.summary, name), len(made.seeds)
    except Interrupted:
        print(f"stopped; the same command goes on where {_WORKDIR.value} was left", file=sys.stderr)
        return 130
    radio, others = (
        [row for name in rows if name.startswith("radio") == is_radio for row in rows[name]]
        for is_radio in (True, False)
    )
    for file, held in {"clocks_study": others, "clocks_radio": radio}.items():
        if measure.WRITE.value and held:
            path = measure.RESULTS / f"{file}.json"
            before = json.loads(path.read_text())["rows"] if path.exists() else []
            held = list({**{setting_of(row): row for row in before}, **{setting_of(row): row for row in held}}.values())
            path.write_text(json.dumps({"study": file, "seeds": seeds, "rows": held} | measure.machine()) + "\n")
            print(path)
    return 0


if __name__ == "__main__":
    common.run_command(main)
