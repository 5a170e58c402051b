"""Studies: reads a config file, expands its sweep, runs the simulations and writes the results."""

from mdfl_jax.study.plan import plan
from mdfl_jax.study.run import Interrupted, RunOptions, run_study
from mdfl_jax.study.study import make_study

__all__ = ["Interrupted", "RunOptions", "make_study", "plan", "run_study"]
