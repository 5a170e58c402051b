"""Loggers: sinks that hand each evaluation of a running study to a tool that draws it, as TensorBoard does.

A logger is one file of this folder, or any file of the user's, that registers a subclass of
`mdfl_jax.study.loggers.line_logger.LineLogger` in `LOGGERS`. The field `loggers` of a configuration names the
loggers of a study. JSON lines need no logger: every study writes metrics.jsonl while it runs.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mdfl_jax.config.checks import LOGGERS, parse_loggers
from mdfl_jax.storage.study_files import LOGGERS as FOLDER

if TYPE_CHECKING:
    from mdfl_jax.study.loggers.line_logger import LineLogger
    from mdfl_jax.study.study import Study

__all__ = ["LOGGERS", "loggers_of"]


def loggers_of(study: "Study", workdir: Path, log: Callable[[str], None]) -> "list[LineLogger]":
    """Return the loggers that a study names, as sinks.

    Args:
      study: The study.
      workdir: The folder of the study.
      log: A function that takes lines for the user.
    """
    names = parse_loggers(study.experiment.loggers)
    return [LOGGERS[name](study, workdir / FOLDER / name, log) for name in names]
