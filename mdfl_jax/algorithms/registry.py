"""The algorithms by name. A factory takes an optimiser factory and the number of local steps."""

from typing import Protocol

from mdfl_jax.algorithms.local import OptimizerFactory
from mdfl_jax.registry import Registry
from mdfl_jax.types import Algorithm


class AlgorithmFactory(Protocol):
    """What the registry holds."""

    def __call__(self, optimizer: OptimizerFactory, num_local_steps: int = 1) -> Algorithm:
        """Makes the algorithm."""


ALGORITHMS: Registry[AlgorithmFactory] = Registry("algorithm")
