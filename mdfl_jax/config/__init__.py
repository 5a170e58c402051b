"""The configuration of a study: its fields, their checks, and the points of its sweep."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdfl_jax.config.resolve import default_config

__all__ = ["default_config"]


def __getattr__(name: str) -> Any:
    """Import `default_config` on first use: it knows all members and so JAX, which command lines are read without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mdfl_jax.config.resolve import default_config

    return default_config
