"""The field `loggers` of a configuration: the tools that draw a study while it runs."""

import importlib.util
from typing import Any

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.registry import Registry

LOGGERS: Registry[Any] = Registry("logger", home="mdfl_jax.study.loggers")
"""Loggers: name -> a subclass of `mdfl_jax.study.loggers.line_logger.LineLogger`."""


def parse_loggers(text: str) -> list[str]:
    """Parse the field `loggers`, and check that the packages of these loggers are installed.

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
    for name in names:
        if name not in LOGGERS:
            raise UserError(f"loggers: {unknown_name(LOGGERS.kind, name, LOGGERS)}")
        package, install = LOGGERS[name].package, LOGGERS[name].install or LOGGERS[name].package
        if package and not importlib.util.find_spec(package):
            raise UserError(f"loggers is {text!r}; {name} needs the package {package}: pip install {install!r}")
    return names
