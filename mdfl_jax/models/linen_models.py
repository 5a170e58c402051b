"""Client models around modules of flax linen that were written for other programs."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.models.client import ClientModel
from mdfl_jax.models.modes import filled_up, parameters_of, told


class Adapted(nn.Module):
    """A client model around a module whose ``__call__`` has arguments that tell whether it is in training.

    Attributes:
      inner: the module.
      flags: the names of the arguments.
    """

    inner: nn.Module
    flags: tuple[str, ...]
    draws = True  # in training the module may draw from Flax's stream "dropout"

    @nn.compact
    def __call__(self, samples: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Return the outputs for samples [B, ...]; ``mask`` [B] bool is given only in training, False for padding."""
        if mask is not None:
            samples = filled_up(samples, mask)
        return self.inner(samples, **told(self.flags, mask is not None))

    @property
    def adapted_from(self) -> Callable[..., Any]:
        """The module's class, for messages."""
        return type(self.inner)


class WithFields(ClientModel):
    """A client model around a module with fields that tell whether it is in training, as in ``Net(train=True)``.

    Args:
      inner: the module.
      flags: the names of the fields.
    """

    draws = True

    def __init__(self, inner: nn.Module, flags: tuple[str, ...]):
        self.inner, self.flags, self.adapted_from = inner, flags, type(inner)

    def init(self, key: jax.Array, samples: jax.Array) -> Any:
        """Return the module's initial variables."""
        return self.inner.clone(**told(self.flags, False)).init(key, samples)

    def apply(self, variables: Any, samples: jax.Array, mask: jax.Array | None = None, **rest: Any) -> Any:
        """Apply the module as its own method ``apply`` does; ``mask`` [B] bool is given only in training."""
        if mask is not None:
            samples = filled_up(samples, mask)
        return self.inner.clone(**told(self.flags, mask is not None)).apply(variables, samples, **rest)


class ByStream(ClientModel):
    """A client model around a module that draws if, and only if, it is given the stream "dropout".

    Args:
      inner: the module, which may use a mask.
    """

    draws = True

    def __init__(self, inner: nn.Module):
        self.inner, self.takes_mask, self.adapted_from = inner, uses_mask(inner), type(inner)

    def init(self, key: jax.Array, samples: jax.Array) -> Any:
        """Return the module's initial variables."""
        return self.inner.init(key, samples)

    def apply(self, variables: Any, samples: jax.Array, mask: jax.Array | None = None, **rest: Any) -> Any:
        """Apply the module as its own method ``apply`` does; ``rngs`` and ``mask`` [B] bool belong to training."""
        given = () if mask is None or not self.takes_mask else (mask,)
        return self.inner.apply(variables, samples, *given, **rest)


class SamplesLast(nn.Module):
    """A client model around a module whose input is [channels, H, W, B], with the samples last.

    The models of this package use this layout internally, because it is faster on CPUs.

    Attributes:
      inner: a module from [channels, H, W, B] to outputs [B, C]. It takes a mask as its second argument if it has batch
        statistics. A module for `adapt` cannot be used here, because its samples are on the first axis.
    """

    inner: nn.Module

    @nn.compact
    def __call__(self, images: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Return the outputs [B, C] of images [B, H, W, channels]; ``mask`` [B] bool is given only in training."""
        given = () if mask is None else (mask,)
        return self.inner(jnp.transpose(images, (3, 1, 2, 0)), *given)


def uses_mask(module: nn.Module) -> bool:
    """Tell whether a module, or the module in `SamplesLast`, has an argument ``mask``."""
    inside = module.inner if isinstance(module, SamplesLast) else module
    return "mask" in parameters_of(type(inside).__call__)
