"""The mobility rules by name. A rule's file registers it; `mdfl_jax.mobility` imports the files."""

from collections.abc import Callable

from mdfl_jax.mobility.rule import Mobility
from mdfl_jax.registry import Registry

MOBILITIES: Registry[Callable[[], Mobility]] = Registry("mobility")
