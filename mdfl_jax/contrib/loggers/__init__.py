"""Loggers for tools that draw a running study (`mdfl_jax.study.loggers`)."""
