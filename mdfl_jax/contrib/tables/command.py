"""Saves a table of one quantity of a study by two of its settings, as Markdown, LaTeX or CSV.

mdfl table runs/pairs --to=table.tex [--rows=mobility] [--columns=radius] [--metric=final_accuracy]
"""

from pathlib import Path

from absl import flags

from mdfl_jax.contrib.tables import pivot
from mdfl_jax.core.errors import UserError, check_path
from mdfl_jax.results.results import Results

_DIR = flags.DEFINE_string("workdir", None, "Folder of the study, as the word of the command.")
_TO = flags.DEFINE_string("to", None, "File of the table: .md, .tex or .csv.")
_ROWS = flags.DEFINE_string("rows", "", "Setting of the rows; default: that of the colours.")
_COLUMNS = flags.DEFINE_string("columns", "", "Setting of the columns; default: that with most values.")
_METRIC = flags.DEFINE_string("metric", "final_accuracy", "Quantity: an entry of the points in summary.json.")
WORDS, DOES = ("workdir",), ""


def main() -> int:
    """Save the table and print its path."""
    if not _DIR.value or not _TO.value:
        raise UserError("a study and a file are needed, as in: mdfl table runs/pairs --to=table.tex")
    for name in (_DIR.value, _TO.value):
        check_path("the path", name)
    pivot.save_table(Results.read(_DIR.value).shown(), Path(_TO.value), _ROWS.value, _COLUMNS.value, _METRIC.value)
    print(_TO.value)
    return 0
