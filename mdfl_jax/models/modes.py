"""How a user's model is told whether it is in training or in evaluation, and what it sees in place of padding."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

IN_TRAINING = {
    "train": True,
    "training": True,
    "is_training": True,
    "deterministic": False,
    "use_running_average": False,
}
"""Names by which models distinguish training from evaluation, with their values in training."""


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function by name; none for a function of C, whose signature is unknown."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def flags_in(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the names that are in `IN_TRAINING`."""
    return tuple(name for name in names if name in IN_TRAINING)


def told(flags: Iterable[str], trains: bool) -> dict[str, Any]:
    """Return the values of flags in training or in evaluation.

    A flag that is not in `IN_TRAINING` is True in training.

    >>> told(["train", "deterministic"], trains=True)
    {'train': True, 'deterministic': False}
    """
    return {flag: IN_TRAINING.get(flag, True) == trains for flag in flags}


def filled_up(samples: jax.Array, mask: jax.Array) -> jax.Array:
    """Replace padding by copies of the real samples, so that only their values are in the batch statistics.

    The copies take the real samples in turn. So some count once more than others, and the statistics are close to those
    of the real samples; they are equal where the number of copies is a multiple of the number of real samples.

    Args:
      samples: [B, ...].
      mask: [B] bool, False for padding.
    """
    present = jnp.argsort(~mask, stable=True)
    turn = jnp.cumsum(~mask) - 1  # the number of each padding sample, from 0
    return samples[jnp.where(mask, jnp.arange(mask.shape[0]), present[turn % jnp.maximum(jnp.sum(mask), 1)])]
