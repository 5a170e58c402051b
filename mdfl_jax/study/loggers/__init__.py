"""Loggers: sinks that hand each evaluation of a running study to a tool that draws it, as TensorBoard does.

A logger is one file of this folder, or any file of the user's, that registers a subclass of
`mdfl_jax.study.loggers.line_logger.LineLogger` in `LOGGERS`. The field `loggers` of a configuration names the
loggers of a study. JSON lines need no logger: every study writes metrics.jsonl while it runs.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.registry import Registry
from mdfl_jax.storage.workdir_names import LOGGERS as FOLDER

if TYPE_CHECKING:
    from mdfl_jax.study.loggers.line_logger import LineLogger
    from mdfl_jax.study.study import Study

LOGGERS: "Registry[type[LineLogger]]" = Registry("logger")


def load() -> None:
    """Imports every file of this folder, so that its logger is registered."""
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")


def parse_loggers(text: str) -> list[str]:
    """Parses the field `loggers`, and checks that the packages of these loggers are installed.

    Args:
      text: Names separated by commas; empty: none.

    Returns:
      The names, each once.

    Raises:
      UserError: If a name is unknown, or if the package of a logger is missing. The message says what pip must
        install.

    >>> parse_loggers("")
    []
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if names:
        load()
    for name in names:
        if name not in LOGGERS:
            raise UserError(f"loggers: {unknown_name(LOGGERS.kind, name, LOGGERS)}")
        package, install = LOGGERS[name].package, LOGGERS[name].install or LOGGERS[name].package
        if package and not importlib.util.find_spec(package):
            raise UserError(f"loggers is {text!r}; {name} needs the package {package}: pip install {install!r}")
    return names


def loggers_of(study: "Study", workdir: Path, log: Callable[[str], None]) -> "list[LineLogger]":
    """Returns the loggers that a study names, as sinks.

    Args:
      study: The study.
      workdir: The folder of the study, or that of the whole if it is a part by which a study is extended.
      log: A function that takes lines for the user.
    """
    names = parse_loggers(study.experiment.loggers)
    return [LOGGERS[name](study, workdir / FOLDER / name, log) for name in names]
