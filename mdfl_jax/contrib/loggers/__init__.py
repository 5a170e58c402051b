"""Loggers: sinks that hand each evaluation of a running study to a tool that draws it, as TensorBoard does.

A logger is one file of this folder, or any file of the user's, that registers a subclass of
`mdfl_jax.contrib.loggers.line_logger.LineLogger` in `mdfl_jax.config.checks.LOGGERS`. The field `loggers` of a
configuration names the loggers of a study. JSON lines need no logger: every study writes metrics.jsonl while it runs.
"""
