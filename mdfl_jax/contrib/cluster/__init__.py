"""Clusters on which the workers of a study run: SLURM and Ray (`mdfl_jax.study.crew.Place`)."""
