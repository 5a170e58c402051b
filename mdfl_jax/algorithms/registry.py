"""The algorithms by name. A factory takes an optimiser, the number of local steps, the bound of neighbour lists."""

from typing import Protocol

from mdfl_jax.algorithms.local import OptimizerFactory
from mdfl_jax.registry import Registry
from mdfl_jax.types import Algorithm


class AlgorithmFactory(Protocol):
    """What the registry holds."""

    def __call__(self, optimizer: OptimizerFactory, num_local_steps: int = 1, mixing_bound: int = 0) -> Algorithm:
        """Makes the algorithm."""


ALGORITHMS: Registry[AlgorithmFactory] = Registry("algorithm")
