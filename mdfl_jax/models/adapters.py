"""Flax models written for other programs, as client models: how they are told that they train, and their layout."""

import inspect
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError
from mdfl_jax.statistics import STATISTICS

IN_TRAINING = {
    "train": True,
    "training": True,
    "is_training": True,
    "deterministic": False,
    "use_running_average": False,
}
"""Arguments by which flax models are told that they train, and what they are then."""


def adapt(model: nn.Module, training: str = "") -> nn.Module:
    """A client model of a flax module as most are written: from images [B, H, W, channels] to logits [B, C].

    Its ``BatchNorm`` and ``Dropout`` work: it is told in training and in evaluation which of them it is, its batch
    statistics are exchanged or kept as ``algorithm.statistics`` says, and what it draws is its client's own. It is
    slower than the models of this package, whose samples come last.

    Args:
      model: the module.
      training: the argument of its ``__call__`` that says that it trains; found among `IN_TRAINING` where left out.
        One that is not among them is True in training.

    Raises:
      UserError: where it has no such argument.

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
    """A module that is told by an argument whether it trains; see `adapt`.

    Attributes:
      inner: the module.
      training: the name of the argument.
    """

    inner: nn.Module
    training: str
    draws = True  # in training it may draw from flax's stream "dropout"

    @nn.compact
    def __call__(self, images: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Logits of images [B, H, W, channels]; ``mask`` [B] bool, which samples there are, is given in training."""
        says = IN_TRAINING.get(self.training, True)
        if mask is not None:
            images = _filled_up(images, mask)
        return self.inner(images, **{self.training: says if mask is not None else not says})


def _filled_up(images: jax.Array, mask: jax.Array) -> jax.Array:
    """Images with those that there are, once more, in place of those that are not: padding is in no statistic."""
    present = jnp.argsort(~mask, stable=True)
    turn = jnp.cumsum(~mask) - 1  # in which those that are not follow one another
    return images[jnp.where(mask, jnp.arange(mask.shape[0]), present[turn % jnp.maximum(jnp.sum(mask), 1)])]


class SamplesLast(nn.Module):
    """A module that takes [channels, H, W, B], samples last, as those of this package do inside: on CPUs the faster.

    Attributes:
      inner: from [channels, H, W, B], and a mask where it keeps batch statistics, to logits [B, C]. It may not be one
        that `adapt` wraps, whose samples come first.
    """

    inner: nn.Module

    @nn.compact
    def __call__(self, images: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Logits of images [B, H, W, channels]; ``mask`` [B] bool is given in training."""
        given = () if mask is None else (mask,)
        return self.inner(jnp.transpose(images, (3, 1, 2, 0)), *given)


def variables_of(model: nn.Module, image_shape: tuple[int, ...]) -> Any:
    """The shapes of a model's variables.

    Args:
      model: from images to logits.
      image_shape: (height, width, channels).

    Raises:
      UserError: where it cannot be called with images alone, or in training; where it keeps batch statistics and takes
        no mask; where it is told whether it trains and `adapt` does not wrap it.
    """
    name, arguments = type(model).__name__, inspect.signature(type(model).__call__).parameters
    images, mask = jnp.zeros((2, *image_shape)), jnp.ones(2, bool)
    if said := [argument for argument in arguments if argument in IN_TRAINING]:
        raise UserError(f"the model {name} is told by {said[0]} whether it trains; mdfl_jax.models.adapt wraps it")
    try:
        shapes = jax.eval_shape(model.init, jax.random.key(0), images)
        logits = jax.eval_shape(model.apply, shapes, images)  # what it draws is for training alone
    except Exception as error:  # of the user's module: anything
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
    """Whether a model may draw in training."""
    return bool(getattr(model, "draws", False))


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split(chr(10) * 2)[0].split())[:200]}"
