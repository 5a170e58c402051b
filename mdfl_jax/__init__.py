"""A JAX-accelerated, vectorised simulator of decentralized federated learning among moving clients."""

import importlib
from typing import TYPE_CHECKING, Any

from mdfl_jax.core.errors import UserError

if TYPE_CHECKING:
    from mdfl_jax.core.types import Algorithm, Hparams, Links, Network, Schedule, Task
    from mdfl_jax.data.partition import partition
    from mdfl_jax.engine.simulation import simulate
    from mdfl_jax.exchange.on_arrays import aggregate
    from mdfl_jax.networks.mixing import mixing_weights
    from mdfl_jax.results.results import Results
    from mdfl_jax.study.events import EvaluationInfo
    from mdfl_jax.study.run import run
    from mdfl_jax.study.runner import Interrupted

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
    "aggregate",
    "environment",
    "mixing_weights",
    "partition",
    "run",
    "simulate",
]
__version__ = "0.1.0"

_HOMES = {
    "EvaluationInfo": "study.events",
    "Interrupted": "study.runner",
    "Results": "results.results",
    "aggregate": "exchange.on_arrays",
    "environment": "contrib.environment.environment",
    "mixing_weights": "networks.mixing",
    "partition": "data.partition",
    "run": "study.run",
    "simulate": "engine.simulation",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the parts that do not need JAX (traces, reports) never import it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'core.types')}"), name)
