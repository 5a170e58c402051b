"""The registry of mobility rules by name. Each rule's file registers it, and `mdfl_jax.mobility` imports the files."""

from collections.abc import Callable, Sequence
from typing import Any

from mdfl_jax.core.numbers import from_values
from mdfl_jax.core.registry import Registry
from mdfl_jax.mobility.rule import Mobility

MOBILITIES: Registry[Callable[[], Mobility]] = Registry("mobility")


def rule_numbers(mobility: Sequence[str], **values: Any) -> tuple[Any, ...]:
    """Make the numbers of mobility rules, for `SpatialParams.rules`.

    Args:
      mobility: the names of the rules.
      **values: numbers by name. Each rule takes the numbers that it has, and its default where none is given.

    Returns:
      The numbers of each rule, in the order of ``mobility``.
    """
    return tuple(from_values(MOBILITIES.numbers(name), values) for name in mobility)
