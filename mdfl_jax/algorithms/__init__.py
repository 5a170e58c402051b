"""What is done and sent in a round. Importing the package registers every algorithm."""

from mdfl_jax.algorithms import (
    anq_nids,
    beer,
    choco,
    dcd_psgd,
    dfedavgm,
    dfedsam,
    dpsgd,
    epidemic,
    fedmobile,
    gradient_tracking,
    nids,
    pame,
    squarm_sgd,
)
from mdfl_jax.algorithms.registry import ALGORITHMS, numbers_of

__all__ = [
    "ALGORITHMS",
    "anq_nids",
    "beer",
    "choco",
    "dcd_psgd",
    "dfedavgm",
    "dfedsam",
    "dpsgd",
    "epidemic",
    "fedmobile",
    "gradient_tracking",
    "nids",
    "numbers_of",
    "pame",
    "squarm_sgd",
]
