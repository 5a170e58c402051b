"""The losses of the task of data sets. Importing the package registers those that it has."""

from mdfl_jax.tasks.losses.binary_cross_entropy import BINARY_CROSS_ENTROPY
from mdfl_jax.tasks.losses.cross_entropy import CROSS_ENTROPY
from mdfl_jax.tasks.losses.registry import LOSSES, Loss, LossNumbers, check_loss, loss_named
from mdfl_jax.tasks.losses.squared_error import SQUARED_ERROR

__all__ = [
    "BINARY_CROSS_ENTROPY",
    "CROSS_ENTROPY",
    "LOSSES",
    "SQUARED_ERROR",
    "Loss",
    "LossNumbers",
    "check_loss",
    "loss_named",
]
