"""Makes the tables, the figures and report.html of a finished study again.

mdfl report runs/digits [--x=bits]
python -m launch.report --workdir=runs/digits [--x=bits]
"""

from pathlib import Path

from absl import flags

from mdfl_jax.commands import common
from mdfl_jax.errors import UserError
from mdfl_jax.report.page import write_report

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of a finished run; it holds config.json and summary.json.")
_X = flags.DEFINE_string(
    "x", None, "X axis of the curves: rounds, messages, bits or a metric of the study; the study's where left out."
)
WORDS = {"workdir": str}


def main() -> int:
    """Writes the report and prints its path."""
    if not _WORKDIR.value:
        raise UserError("--workdir=DIR is missing: the folder of a finished run")
    print(write_report(Path(_WORKDIR.value), _X.value or ""))
    return 0


if __name__ == "__main__":
    common.run(main)
