"""Loggers: sinks that hand each evaluation of a running study to a tool that draws it, as TensorBoard does.

A logger is one file of `mdfl_jax.contrib.loggers`, or any file of the user's, that registers a subclass of
`mdfl_jax.study.loggers.line_logger.LineLogger` in `LOGGERS`. The field `loggers` of a configuration names the
loggers of a study. JSON lines need no logger: every study writes metrics.jsonl while it runs.
"""

from mdfl_jax.config.checks import LOGGERS

__all__ = ["LOGGERS"]
