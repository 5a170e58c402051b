"""The algorithms by name, and their numbers."""

from collections.abc import Callable, Iterable
from typing import Any

from mdfl_jax.algorithms.local import AlgorithmNumbers, CompressedNumbers, LocalNumbers, Settings
from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.exchange.compressors import COMPRESSORS
from mdfl_jax.numbers import Numbers, fields_of, from_values
from mdfl_jax.registry import Registry
from mdfl_jax.types import Algorithm

Factory = Callable[[Settings], Algorithm]

ALGORITHMS: Registry[Factory] = Registry("algorithm", LocalNumbers)
_IGNORED: dict[str, frozenset[str]] = {}

RECURSION = ("momentum", "optimizer", "local_steps", "statistics")
"""What an algorithm has no use for whose one gradient step a round is part of its recursion."""


def register(
    name: str, numbers: type[AlgorithmNumbers] = LocalNumbers, ignores: Iterable[str] = ("compressor",)
) -> Callable[[Factory], Factory]:
    """Decorator: lists an algorithm in `ALGORITHMS`, with the class of its numbers.

    Args:
      name: in configs.
      numbers: their defaults are those of its paper.
      ignores: which of compressor, local_steps, momentum, optimizer and statistics (local ones) it has no use for; a
        config that sets one is refused.

    Raises:
      UserError: for numbers of another kind, or a name that something else has.
    """
    if not issubclass(numbers, AlgorithmNumbers):
        raise UserError(f"algorithm {name!r}: {numbers.__name__} must be a subclass of AlgorithmNumbers")
    _IGNORED[name] = frozenset(ignores)
    return ALGORITHMS.register(name, numbers)


def ignored_by(name: str) -> frozenset[str]:
    """What an algorithm said that it has no use for; nothing where it was listed without a word."""
    return _IGNORED.get(name, frozenset())


def compressor_in_use(name: str, compressor: str = "") -> str:
    """The compressor of an algorithm: the one asked for, else its paper's; empty where it compresses nothing."""
    kind = ALGORITHMS.numbers(name)
    return (compressor or kind.own_compressor) if issubclass(kind, CompressedNumbers) else ""


def resolved(name: str, compressor: str, values: dict[str, Any]) -> Any:
    """The numbers of an algorithm with those of its compressor; of the values what neither has is left out."""
    found, used = from_values(ALGORITHMS.numbers(name), values), compressor_in_use(name, compressor)
    return found.replace(compressor=from_values(COMPRESSORS.numbers(used), values)) if used else found


def numbers_of(name: str, compressor: str = "", **values: Any) -> Any:
    """The numbers of an algorithm, those of its compressor with it, for studies written in Python.

    Args:
      name: of the algorithm.
      compressor: a name of `COMPRESSORS`; empty: the algorithm's own, if it has one.
      **values: of the algorithm's and the compressor's numbers by name; the others, and those that are None, are the
        paper's.

    Raises:
      UserError: for an unknown name.

    >>> numbers_of("pame", lr=0.5).lr, numbers_of("pame").period_max
    (0.5, 7)
    """
    found = resolved(name, compressor, values)
    compressed: Numbers = getattr(found, "compressor", Numbers())
    known = [*fields_of(type(found)), *fields_of(type(compressed))]
    if unknown := [value for value in values if value not in known]:
        raise UserError(unknown_name(f"number of {name}", unknown[0], known))
    return found
