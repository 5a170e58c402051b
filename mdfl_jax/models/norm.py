"""Group normalisation and batch normalisation, with the samples on the last axis."""

from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError, unknown_name

NORMS = ("batch", "group", "none")


class Over(NamedTuple):
    """The values that share a mean and a variance.

    Attributes:
      groups: the number of groups of channels, each apart for each sample, without a mask; 0: a channel of all samples
        of a mask.
      epsilon: a small number that is added to the variance.
    """

    groups: int
    epsilon: float

    def total(self, a: jax.Array, mask: jax.Array | None) -> jax.Array:
        """Sum ``a`` [C, H, W, B] for each channel: [C, 1, 1, B] with groups, otherwise [C, 1, 1, 1]."""
        if mask is None:
            return jnp.sum(a, axis=(1, 2), keepdims=True)
        return jnp.sum(jnp.where(mask, a, 0.0), axis=(1, 2, 3), keepdims=True)

    def mean(self, total: jax.Array, shape: tuple[int, ...], mask: jax.Array | None) -> jax.Array:
        """Return the mean of values of ``shape`` from the `total` of each channel, in the shape of the total."""
        if mask is not None:
            return total / jnp.maximum(pixels(shape, mask), 1.0)
        channels, height, width, samples = shape
        of_channels = (total / (height * width)).reshape(self.groups, -1, samples)
        return jnp.repeat(jnp.mean(of_channels, axis=1), channels // self.groups, axis=0)[:, None, None]


def pixels(shape: tuple[int, ...], mask: jax.Array) -> jax.Array:
    """Count the pixels of the samples of activations [C, H, W, B] that are in a mask [B] bool."""
    return jnp.sum(mask) * float(shape[1] * shape[2])


def column(of_channels: jax.Array) -> jax.Array:
    """Return numbers [C] with the axes of activations [C, H, W, B]."""
    return of_channels[:, None, None, None]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def normalise(
    over: Over, x: jax.Array, mask: jax.Array | None, scale: jax.Array, bias: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return activations with mean 0 and variance 1, times ``scale`` plus ``bias``, and their mean and variance.

    The mean is subtracted before the squares are taken. Where it is a thousand times the standard deviation, the mean
    of the squares less the square of the mean has no digits left. The gradient, which reads the activations and the
    gradient of the result twice, is written out; without that, the compilers read them four times. No gradient comes
    from the mean and the variance.

    Args:
      over: what shares a mean.
      x: [C, H, W, B], computed in float32. What was rounded to bfloat16 is read once, not once for the mean and once
        more for the variance: far from zero, that rounding alone moves the variance more.
      mask: [B] bool or None; with a mask, the results of the other samples are zeros.
      scale, bias: [C] float32.

    Returns:
      (results [C, H, W, B] of the type of ``x``, the mean, the variance).
    """
    return _forward(over, x, mask, scale, bias)[0]


def _forward(over: Over, x: jax.Array, mask: jax.Array | None, scale: jax.Array, bias: jax.Array) -> Any:
    wide, mean = x.astype(jnp.float32), lambda a: over.mean(over.total(a, mask), x.shape, mask)
    near = mean(wide) if x.dtype.itemsize >= 4 else jnp.zeros(())
    rest = wide - near
    left = mean(rest)
    variance = jnp.maximum(mean(rest * rest) - left * left, 0.0)
    spread = variance if mask is None else jnp.where(jnp.any(mask), variance, 1.0)
    root = jax.lax.rsqrt(spread + over.epsilon)
    y = (rest - left) * (root * column(scale)) + column(bias)
    y = y if mask is None else jnp.where(mask, y, 0.0)
    return (y.astype(x.dtype), near + left, variance), (x, mask, scale, near, left, root)


def _backward(over: Over, kept: Any, gradients: Any) -> Any:
    x, mask, scale, near, left, root = kept
    dy = gradients[0].astype(jnp.float32)
    dy = dy if mask is None else jnp.where(mask, dy, 0.0)
    y = ((x.astype(jnp.float32) - near) - left) * root
    totals = over.total(dy, mask), over.total(dy * y, mask)
    dbias, dscale = (total.sum(axis=(1, 2, 3)) for total in totals)
    along, of_variance = (over.mean(total * column(scale), x.shape, mask) for total in totals)
    dx = root * (dy * column(scale) - along - y * of_variance)
    dx = dx if mask is None else jnp.where(mask, dx, 0.0)
    return dx.astype(x.dtype), None, dscale, dbias


normalise.defvjp(_forward, _backward)


class GroupNorm(nn.Module):
    """Group normalisation (Wu and He, ECCV 2018), samples last.

    It normalises each sample's channels, in groups, to mean 0 and variance 1, in float32.

    Attributes:
      groups: the number of groups, a divisor of the number of channels.
      epsilon: a small number that is added to the variance.
    """

    groups: int
    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalise ``x`` [C, H, W, B]; each channel has one scale and one bias."""
        channels = x.shape[0]
        scale = self.param("scale", nn.initializers.ones_init(), (channels,))
        bias = self.param("bias", nn.initializers.zeros_init(), (channels,))

        return normalise(Over(self.groups, self.epsilon), x, None, scale, bias)[0]


class BatchNorm(nn.Module):
    """Batch normalisation (Ioffe and Szegedy, ICML 2015), samples last. It normalises each channel.

    In training, where a mask is given, the mean and variance of the batch are used. The running statistics are updated:
    mean <- (1 - momentum) mean + momentum * batch mean, and the variance likewise, with the unbiased variance of the
    batch. These are the conventions of PyTorch. Samples outside of the mask are ignored, and their outputs are zeros,
    so that these outputs cannot grow without bound for an empty batch or a batch of one sample. In evaluation, without
    a mask, the running mean and variance are used.

    Attributes:
      momentum: the weight of the batch in an update of the running mean and variance.
      epsilon: a small number that is added to the variance.
    """

    momentum: float = 0.1
    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x: Any, mask: jax.Array | None = None) -> Any:
        """Normalise ``x`` [C, H, W, B]; ``mask`` [B] bool is given only in training and is False for padding."""
        channels = x.shape[0]
        scale = self.param("scale", nn.initializers.ones_init(), (channels,))
        bias = self.param("bias", nn.initializers.zeros_init(), (channels,))
        mean = self.variable("batch_stats", "mean", jnp.zeros, (channels,), jnp.float32)
        var = self.variable("batch_stats", "var", jnp.ones, (channels,), jnp.float32)
        if mask is None:
            variance = jnp.maximum(var.value, 0.0)  # a compressor's noise may make it negative
            rest = x.astype(jnp.float32) - column(mean.value)
            y = rest * column(jax.lax.rsqrt(variance + self.epsilon) * scale) + column(bias)
            return y.astype(x.dtype)
        count = pixels(x.shape, mask)
        result, centre, spread = self.of_batch(x, mask, scale, bias)
        if not self.is_initializing():
            unbiased = spread * count / jnp.maximum(count - 1.0, 1.0)
            rate = jnp.where(count > 0, self.momentum, 0.0)
            mean.value += rate * (centre - mean.value)
            var.value += rate * (unbiased - var.value)
        return result

    def of_batch(self, x: Any, mask: jax.Array, scale: jax.Array, bias: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        """Return the normalised ``x`` of the samples of a mask, and their mean and variance, [C] each."""
        result, *moments = normalise(Over(0, self.epsilon), x, mask, scale, bias)
        mean, variance = (value[:, 0, 0, 0] for value in moments)
        return result, mean, variance


class Norm(nn.Module):
    """A normalisation by its name, one of `NORMS`.

    Attributes:
      kind: batch, group or none.
      groups: the number of groups of the group normalisation.
    """

    kind: str
    groups: int

    @nn.compact
    def __call__(self, x: Any, mask: jax.Array | None = None) -> Any:
        """Normalise ``x`` [C, H, W, B]; ``mask`` [B] bool is given only in training."""
        if self.kind == "batch":
            return BatchNorm(name="batch")(x, mask)
        return GroupNorm(self.groups, name="group")(x) if self.kind == "group" else x


def check_norm(kind: str, widths: tuple[int, ...], groups: int) -> None:
    """Check that a normalisation can be used with layers of certain widths.

    Args:
      kind: one of `NORMS`.
      widths: the numbers of channels of the layers.
      groups: the number of groups of the group normalisation.

    Raises:
      UserError: for an unknown normalisation, or if ``groups`` does not divide a width under group normalisation.
    """
    if kind not in NORMS:
        raise UserError(unknown_name("model.norm", kind, NORMS))
    if kind == "group" and any(width % groups for width in widths):
        raise UserError(f"model.base_width gives {widths} channels; with model.norm=group {groups} must divide them")
