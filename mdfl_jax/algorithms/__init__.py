"""What is done and sent in a round. Importing the package registers every algorithm."""

from mdfl_jax.algorithms import dpsgd, fedmobile
from mdfl_jax.algorithms.registry import ALGORITHMS

__all__ = ["ALGORITHMS", "dpsgd", "fedmobile"]
