"""The results of a finished study: its records, its files, and their arrays and tables in Python."""

from mdfl_jax.results.results import MetricInfo, StudyResults

__all__ = ["MetricInfo", "StudyResults"]
