"""Makes client models of Flax modules that were written for other programs."""

import inspect
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.batch_statistics import STATISTICS
from mdfl_jax.errors import UserError

IN_TRAINING = {
    "train": True,
    "training": True,
    "is_training": True,
    "deterministic": False,
    "use_running_average": False,
}
"""Arguments by which Flax modules distinguish training from evaluation, with their values in training."""


def adapt(model: nn.Module, training: str = "") -> nn.Module:
    """Makes a client model of a usual Flax module, which maps images [B, H, W, channels] to logits [B, C].

    ``BatchNorm`` and ``Dropout`` in the module work: the module is told whether it is in training or in evaluation, its
    batch statistics are exchanged or kept as ``algorithm.statistics`` says, and each client has its own random draws.
    An adapted model is slower than the models of this package, which have the samples on the last axis.

    Args:
      model: the module.
      training: the argument of the module's ``__call__`` that tells whether it is in training. By default it is found
        among `IN_TRAINING`. An argument that is not in `IN_TRAINING` is set to True in training.

    Raises:
      UserError: if the module has no such argument.

    >>> import flax.linen as nn
    >>> class Net(nn.Module):
    ...     @nn.compact
    ...     def __call__(self, x, train):
    ...         return nn.BatchNorm(use_running_average=not train)(nn.Dense(3)(x.reshape(x.shape[0], -1)))
    >>> adapt(Net()).training
    'train'
    """
    arguments = inspect.signature(type(model).__call__).parameters
    found = [training] if training else [name for name in IN_TRAINING if name in arguments]
    if not found or found[0] not in arguments:
        known = f"an argument {training!r}" if training else f"one of the arguments {', '.join(IN_TRAINING)}"
        raise UserError(f"the model {type(model).__name__} has not {known}; adapt needs one that says that it trains")
    return Adapted(model, found[0])


class Adapted(nn.Module):
    """A client model around a module with an argument that tells whether it is in training; see `adapt`.

    Attributes:
      inner: the module.
      training: the name of the argument.
    """

    inner: nn.Module
    training: str
    draws = True  # in training the module may draw from Flax's stream "dropout"

    @nn.compact
    def __call__(self, images: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Returns the logits [B, C] of images [B, H, W, channels].

        ``mask`` [B] bool is given only in training; it is False for padding.
        """
        says = IN_TRAINING.get(self.training, True)
        if mask is not None:
            images = _filled_up(images, mask)
        return self.inner(images, **{self.training: says if mask is not None else not says})


def _filled_up(images: jax.Array, mask: jax.Array) -> jax.Array:
    """Replaces padding by copies of the real images, so that padding does not change the batch statistics."""
    present = jnp.argsort(~mask, stable=True)
    turn = jnp.cumsum(~mask) - 1  # the number of each padding sample, from 0
    return images[jnp.where(mask, jnp.arange(mask.shape[0]), present[turn % jnp.maximum(jnp.sum(mask), 1)])]


class SamplesLast(nn.Module):
    """A client model around a module whose input is [channels, H, W, B], with the samples last.

    The models of this package use this layout internally, because it is faster on CPUs.

    Attributes:
      inner: a module from [channels, H, W, B] to logits [B, C]. It takes a mask as its second argument if it has batch
        statistics. A module for `adapt` cannot be used here, because its samples are on the first axis.
    """

    inner: nn.Module

    @nn.compact
    def __call__(self, images: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Returns the logits [B, C] of images [B, H, W, channels]; ``mask`` [B] bool is given only in training."""
        given = () if mask is None else (mask,)
        return self.inner(jnp.transpose(images, (3, 1, 2, 0)), *given)


def variables_of(model: nn.Module, image_shape: tuple[int, ...]) -> Any:
    """Returns the shapes of a model's variables, after checks that the model can be trained and evaluated.

    Args:
      model: a module from images [B, H, W, channels] to logits [B, C].
      image_shape: (height, width, channels).

    Raises:
      UserError: if the model cannot be called with images alone, or fails in training; if it returns no logits [B, C];
        if it has batch statistics and takes no mask; or if it has an argument of `IN_TRAINING`, so that it needs
        `adapt`.
    """
    name, arguments = type(model).__name__, inspect.signature(type(model).__call__).parameters
    images, mask = jnp.zeros((2, *image_shape)), jnp.ones(2, bool)
    if said := [argument for argument in arguments if argument in IN_TRAINING]:
        raise UserError(f"the model {name} is told by {said[0]} whether it trains; mdfl_jax.models.adapt wraps it")
    try:
        shapes = jax.eval_shape(model.init, jax.random.key(0), images)
        logits = jax.eval_shape(model.apply, shapes, images)  # without random keys: only training may draw
    except Exception as error:  # the user's module may raise any type
        shape = f"[2, {', '.join(map(str, image_shape))}]"
        raise UserError(f"the model {name} cannot be called with images {shape} alone: {_in_a_line(error)}") from error
    if logits.ndim != 2 or logits.shape[0] != len(images):
        raise UserError(f"the model {name} makes {list(logits.shape)} of images {list(images.shape)}, not [2, C]")
    if STATISTICS in shapes and "mask" not in arguments:
        raise UserError(
            f"the model {name} keeps batch statistics and takes no mask; mdfl_jax.models.adapt wraps it where an "
            f"argument ({', '.join(IN_TRAINING)}) says whether it trains"
        )
    if STATISTICS in shapes or draws(model):
        rngs = {"dropout": jax.random.key(0)}
        try:
            jax.eval_shape(lambda v: model.apply(v, images, mask, mutable=[STATISTICS], rngs=rngs), shapes)
        except Exception as error:
            raise UserError(f"the model {name} cannot be trained: {_in_a_line(error)}") from error
    return shapes


def draws(model: nn.Module) -> bool:
    """Tells whether a model may draw random numbers in training."""
    return bool(getattr(model, "draws", False))


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split(chr(10) * 2)[0].split())[:200]}"
