"""Studies: reads a config file, expands its sweep, runs the simulations and writes the results."""

from mdfl_jax.experiments.config.resolve import default_config
from mdfl_jax.experiments.run.loop import Interrupted, run_study
from mdfl_jax.experiments.run.study import make_study, plan

__all__ = ["Interrupted", "default_config", "make_study", "plan", "run_study"]
