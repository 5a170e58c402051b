"""The registry of mobility rules by name. Each rule's file registers it, and `mdfl_jax.mobility` imports the files."""

from collections.abc import Callable

from mdfl_jax.mobility.rule import Mobility
from mdfl_jax.registry import Registry

MOBILITIES: Registry[Callable[[], Mobility]] = Registry("mobility")
