"""The algorithms by name, and the numbers of their papers."""

from collections.abc import Callable

from mdfl_jax.algorithms.local import AlgorithmParams, Settings
from mdfl_jax.registry import Registry
from mdfl_jax.types import Algorithm

Factory = Callable[[Settings], Algorithm]

ALGORITHMS: Registry[Factory] = Registry("algorithm")
_NUMBERS: dict[str, AlgorithmParams] = {}


def register(name: str, **numbers: float) -> Callable[[Factory], Factory]:
    """Decorator: lists an algorithm in `ALGORITHMS`, with those of its `AlgorithmParams` that differ from the general.

    Args:
      name: in configs.
      **numbers: the defaults of its paper.
    """
    _NUMBERS[name] = AlgorithmParams()._replace(**numbers)
    return ALGORITHMS.register(name)


def numbers_of(name: str) -> AlgorithmParams:
    """The numbers that an algorithm has where a config says nothing (0)."""
    return _NUMBERS.get(name, AlgorithmParams())
