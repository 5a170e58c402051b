"""Studies: reads a config file, expands its sweep, runs the simulations and writes the results."""

from mdfl_jax.experiments.config.resolve import default_config
from mdfl_jax.experiments.run.into_workdir import Interrupted, run_study
from mdfl_jax.experiments.run.plan import plan
from mdfl_jax.experiments.run.study import make_study

__all__ = ["Interrupted", "default_config", "make_study", "plan", "run_study"]
