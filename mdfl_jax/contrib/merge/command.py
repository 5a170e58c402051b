"""Puts workdirs together as one study: of other seeds or other sweep points, perhaps from other machines.

mdfl merge DIR DIR ... --workdir=OUT

The workdirs are read and stay as they are. Neither the data nor the devices of the study are needed.
"""

from pathlib import Path

from absl import flags

from mdfl_jax.cli import common
from mdfl_jax.core.errors import UserError, check_path

_PART = flags.DEFINE_multi_string("part", [], "Workdir of a part, as each word of the command.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Where the whole study goes.")
_REPORT = flags.DEFINE_bool("report", True, "Make tables, figures and report.html of the whole study.")
common.use_flag()
WORDS, DOES = ("part",), "putting the studies together"


def main() -> int:
    """Merge the workdirs, print the table of the whole study and make its report."""
    if not _PART.value:
        raise UserError("the workdirs of the parts are missing, as in: mdfl merge runs/one runs/two --workdir=OUT")
    if not _WORKDIR.value:
        raise UserError("--workdir=OUT is missing: the folder where the whole study goes")
    common.setup_jax("", only_cpu=True)
    common.import_own_files()
    from mdfl_jax.contrib.merge.merge import merge
    from mdfl_jax.report import tables

    out = Path(_WORKDIR.value)
    for given in (*_PART.value, out):
        check_path("the workdir", str(given))
    results = merge([Path(part) for part in _PART.value], out)
    print(tables.text(results))
    if _REPORT.value:
        common.make_report(results)
    return 0
