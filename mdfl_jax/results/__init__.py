"""The results of a finished study in Python: arrays with named axes, tables, figures and the report."""

from mdfl_jax.results.named import MetricInfo
from mdfl_jax.results.results import Results

__all__ = ["MetricInfo", "Results"]
