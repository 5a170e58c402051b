"""A study: prepare it from a configuration, run it, and write its results."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdfl_jax.study.run import RunOptions, run_or_resume
    from mdfl_jax.study.runner import Interrupted
    from mdfl_jax.study.study import make_study

__all__ = ["Interrupted", "RunOptions", "make_study", "run_or_resume"]
_HOMES = {"Interrupted": "runner", "RunOptions": "run", "make_study": "study", "run_or_resume": "run"}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, since modules of this room are read without JAX too."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
