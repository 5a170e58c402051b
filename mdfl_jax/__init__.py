"""A JAX-accelerated, vectorised simulator of decentralized federated learning among moving clients."""

import importlib
from typing import TYPE_CHECKING, Any

from mdfl_jax.errors import UserError

if TYPE_CHECKING:
    from mdfl_jax.experiments.run.callback import EvaluationInfo
    from mdfl_jax.experiments.run.runner import Interrupted
    from mdfl_jax.results import Results
    from mdfl_jax.simulation import Schedule, simulate
    from mdfl_jax.study import run
    from mdfl_jax.types import Algorithm, Hparams, Links, Network, Task

__all__ = [
    "Algorithm",
    "EvaluationInfo",
    "Hparams",
    "Interrupted",
    "Links",
    "Network",
    "Results",
    "Schedule",
    "Task",
    "UserError",
    "run",
    "simulate",
]
__version__ = "0.1.0"

_HOMES = {
    "EvaluationInfo": "experiments.run.callback",
    "Interrupted": "experiments.run.runner",
    "Results": "results",
    "Schedule": "simulation",
    "run": "study",
    "simulate": "simulation",
}


def __getattr__(name: str) -> Any:
    """Imports a public name on first use, so that the parts that do not need JAX (traces, reports) never import it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'types')}"), name)
