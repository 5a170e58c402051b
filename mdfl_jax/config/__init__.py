"""The configuration of a study: its fields, their checks, and the points of its sweep."""

from mdfl_jax.config.resolve import default_config

__all__ = ["default_config"]
