"""The results of a study: the records of its runs, the files that are made of them, and what is read of both."""

from mdfl_jax.results.results import Results

__all__ = ["Results"]
