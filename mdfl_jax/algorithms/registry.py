"""The algorithms by name, and the numbers of their papers."""

from collections.abc import Callable, Iterable

from mdfl_jax.algorithms.local import AlgorithmParams, Settings
from mdfl_jax.registry import Registry
from mdfl_jax.types import Algorithm

Factory = Callable[[Settings], Algorithm]

ALGORITHMS: Registry[Factory] = Registry("algorithm")
_NUMBERS: dict[str, AlgorithmParams] = {}
_IGNORED: dict[str, frozenset[str]] = {}

RECURSION = ("momentum", "optimizer", "local_steps", "statistics")
"""What an algorithm has no use for whose one gradient step a round is part of its recursion."""


def register(name: str, ignores: Iterable[str] = ("compressor",), **numbers: float) -> Callable[[Factory], Factory]:
    """Decorator: lists an algorithm in `ALGORITHMS`, with those of its `AlgorithmParams` that differ from the general.

    Args:
      name: in configs.
      ignores: which of compressor, local_steps, momentum, optimizer and statistics (local ones) it has no use for; a
        config that sets one is refused.
      **numbers: the defaults of its paper.
    """
    _IGNORED[name] = frozenset(ignores)
    _NUMBERS[name] = AlgorithmParams()._replace(**numbers)
    return ALGORITHMS.register(name)


def numbers_of(name: str) -> AlgorithmParams:
    """The numbers that an algorithm has where a config says nothing (0)."""
    return _NUMBERS.get(name, AlgorithmParams())


def ignored_by(name: str) -> frozenset[str]:
    """What an algorithm said that it has no use for; nothing where it was listed without a word."""
    return _IGNORED.get(name, frozenset())
