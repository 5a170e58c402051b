"""What it costs to share a study among workers of one machine: python -m benchmarks.workers

The demo is run by one process on all cores and by several workers that share them, in turns, since other programs may
use the machine too. The cache of compiled programs is warm. The ratio is the throughput of the workers over that of one
process: 1 if nothing is lost. Both times are of the whole commands, from their start to their end, without the report.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from absl import flags

from benchmarks import measure
from mdfl_jax.cli import common

_REPEATS = flags.DEFINE_integer("repeats", 3, "Times that each way is measured.")
_MANY = flags.DEFINE_integer("many", 2, "Number of workers.")
_CONFIG = flags.DEFINE_string("study", "configs/digits.py", "Config file of the study.")
_ROUNDS = flags.DEFINE_integer("rounds", 400, "Rounds of each run.")


def _command(workdir: Path, cache: Path, many: int, rounds: int) -> list[str]:
    command = [sys.executable, "-m", "launch.sweep", f"--config={_CONFIG.value}", f"--workdir={workdir}"]
    return [*command, f"--cache={cache}", f"--config.rounds={rounds}", "--noreport", f"--workers={many}"]


def main() -> int:
    """Measure both ways in turns, and print the median of the ratios."""
    ways, seconds = (1, _MANY.value), dict[int, list[float]]()
    with tempfile.TemporaryDirectory() as folder:
        base, rounds = Path(folder), _ROUNDS.value
        for many in ways:  # fills the cache
            measure.process(_command(base / f"cold-{many}", base / "cache", many, rounds))
        for repeat in range(_REPEATS.value):
            for many in ways:
                taken, _ = measure.process(_command(base / f"{many}-{repeat}", base / "cache", many, rounds))
                seconds.setdefault(many, []).append(taken)
    ratios = [one / shared for one, shared in zip(*(seconds[many] for many in ways))]
    rows = [{"variant": f"{many} workers" if many > 1 else "one process", "seconds": measure.spread(seconds[many])}
            for many in ways]  # fmt: skip
    rows.append({"variant": "throughput of the workers over that of one process", "ratios": ratios,
                 "median": statistics.median(ratios)})  # fmt: skip
    measure.report("workers", rows)
    return 0


if __name__ == "__main__":
    common.run_command(main)
