"""Makes the tables, the figures and report.html of a finished study again.

mdfl report runs/digits [--x=bits]
python -m launch.report --workdir=runs/digits [--x=bits]
"""

from pathlib import Path

from absl import flags

from mdfl_jax.commands import common
from mdfl_jax.errors import UserError
from mdfl_jax.report.page import write_report
from mdfl_jax.report.read import ROUNDS

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of a finished run; it holds config.json and summary.json.")
_X = flags.DEFINE_string(
    "x", None, "X axis of the curves: rounds (or round), messages, bits or a metric of the study; default: the study's."
)
WORDS = {"workdir": str}


def main() -> int:
    """Writes the report and prints its path."""
    if not _WORKDIR.value:
        raise UserError("--workdir=DIR is missing: the folder of a finished run")
    x = ROUNDS if _X.value == "round" else _X.value or ""  # in metrics.jsonl and from Python the axis is called round
    print(write_report(Path(_WORKDIR.value), x))
    return 0


if __name__ == "__main__":
    common.run(main)
