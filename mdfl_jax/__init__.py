"""A JAX-accelerated, vectorised simulator of decentralized federated learning among moving clients."""

from mdfl_jax.errors import UserError
from mdfl_jax.simulation import Schedule, simulate
from mdfl_jax.types import Algorithm, Hparams, Links, Network, Task

__all__ = ["Algorithm", "Hparams", "Links", "Network", "Schedule", "Task", "UserError", "simulate"]
__version__ = "0.1.0"
