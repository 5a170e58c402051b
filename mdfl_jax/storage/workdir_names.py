"""The names in the workdir of a study that several modules know, and whether its files belong together.

No JAX is needed.
"""

from pathlib import Path

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import model_files

CHECKPOINTS = "checkpoints"  # the saved states of an unfinished study
EXTENSION = "extension"  # the parts by which a finished study is extended:
FURTHER_ROUNDS, FURTHER_RUNS = "rounds", "runs"  # these folders are there, each like a workdir
HALVED = "checkpoints.halved"  # checkpoints of smaller batches, which take the place of the others
LOCK = ".mdfl_jax.lock"  # who writes to the workdir at present
LOGGERS = "loggers"  # each logger has a folder of its name there
MODELS = model_files.FOLDER
PUBLISHING = "publishing"  # what takes the place of the earlier files, in the folder `RESULT` of it
RESULT = "result"
STATES = "states"  # the last states of the runs
STREETS = "streets.npz"  # the streets of the map, [K, 4] "streets": straight pieces from (x, y) to (x, y)
WRITTEN = (
    "config.json",
    "metrics.jsonl",
    "history.npz",
    STREETS,
    "summary.json",
    "tables",
    "figures",
    "report.html",
    MODELS,
    LOGGERS,
    STATES,
    CHECKPOINTS,
    HALVED,
    f"{HALVED}.part",
    EXTENSION,
    PUBLISHING,
)
"""Everything that a study may write to its workdir."""


def check_whole(workdir: Path) -> None:
    """Check that the files of a workdir are those of one study.

    Raises:
      UserError: If a command was stopped while new files took the place of the earlier ones.
    """
    if (workdir / PUBLISHING / RESULT).is_dir():
        raise UserError(
            f"{workdir}: a command was stopped while new results took the place of the earlier ones; repeat that "
            "command, which goes on"
        )
