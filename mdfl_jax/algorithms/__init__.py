"""What is done and sent in a round. Importing the package registers every algorithm."""

from mdfl_jax.algorithms import dfedavgm, dfedsam, dpsgd, epidemic, gradient_tracking, nids
from mdfl_jax.algorithms.registry import ALGORITHMS

__all__ = ["ALGORITHMS", "dfedavgm", "dfedsam", "dpsgd", "epidemic", "gradient_tracking", "nids"]
