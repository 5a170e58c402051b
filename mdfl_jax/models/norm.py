"""Group normalisation and batch normalisation, with the samples on the last axis."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.core.devices import backend
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.models.folded import Normalised, Product

NORMS = ("batch", "group", "none")


def centred(
    x: jax.Array, mean: Callable[[jax.Array], jax.Array], twice: bool = True
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return activations less their mean, with the mean and the variance.

    The mean is subtracted before the squares are taken. Where it is a thousand times the standard deviation, the mean
    of the squares minus the square of the mean has no digits left in single precision. Of such values the mean itself
    is rounded, so what is left of it is subtracted too.

    Args:
      x: [C, H, W, B] float32.
      mean: a mean over some axes: [C, H, W, B] -> an array that broadcasts with it.
      twice: whether to read the activations once for the mean and once more for the variance. One reading is enough for
        what was rounded to bfloat16: far from zero, that rounding alone moves the variance more.

    Returns:
      (x less the mean [C, H, W, B], the mean, the variance).
    """
    near = jax.lax.stop_gradient(mean(x)) if twice else jnp.zeros(())  # any constant gives the same
    rest = x - near
    left = mean(rest)
    variance = jnp.maximum(mean(rest * rest) - left * left, 0.0)
    return rest - left, near + left, variance


class GroupNorm(nn.Module):
    """Group normalisation (Wu and He, ECCV 2018), samples last.

    It normalises each sample's channels, in groups, to mean 0 and variance 1, in float32 (`centred`).

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

        def mean(a: jax.Array) -> jax.Array:
            of_channels = jnp.mean(a, axis=(1, 2)).reshape(self.groups, -1, a.shape[3])
            of_groups = jnp.mean(of_channels, axis=1)
            return jnp.repeat(of_groups, channels // self.groups, axis=0)[:, None, None]

        rest, _, variance = centred(x.astype(jnp.float32), mean)
        factor = jax.lax.rsqrt(variance + self.epsilon) * scale[:, None, None, None]
        return (rest * factor + bias[:, None, None, None]).astype(x.dtype)


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
    def __call__(self, x: jax.Array | Product, mask: jax.Array | None = None) -> jax.Array | Normalised:
        """Normalise ``x`` [C, H, W, B]; ``mask`` [B] bool is given only in training and is False for padding.

        A `Product` is not computed, but returned with its normalisation. That needs a mask.
        """
        channels, height, width, _ = x.shape
        scale = self.param("scale", nn.initializers.ones_init(), (channels,))
        bias = self.param("bias", nn.initializers.zeros_init(), (channels,))
        mean = self.variable("batch_stats", "mean", jnp.zeros, (channels,), jnp.float32)
        var = self.variable("batch_stats", "var", jnp.ones, (channels,), jnp.float32)
        column = lambda of_channels: of_channels[:, None, None, None]  # noqa: E731
        if mask is None:
            assert not isinstance(x, Product)
            rest = x.astype(jnp.float32) - column(mean.value)
            variance = column(jnp.maximum(var.value, 0.0))  # a compressor's noise may make it negative
        else:
            count = jnp.sum(mask) * float(height * width)

            def of_batch(a: jax.Array) -> jax.Array:
                return jnp.sum(jnp.where(mask, a, 0.0), axis=(1, 2, 3), keepdims=True) / jnp.maximum(count, 1.0)

            if isinstance(x, Product):
                moments = x.moments(jnp.maximum(count, 1.0))
                centre, spread = map(column, x.result(moments))
            else:
                twice = backend() != "tpu" or x.dtype.itemsize >= 4
                rest, centre, spread = centred(x.astype(jnp.float32), of_batch, twice)
            variance = jnp.where(count > 0, spread, 1.0)
            if not self.is_initializing():
                unbiased = spread * count / jnp.maximum(count - 1.0, 1.0)
                rate = jnp.where(count > 0, self.momentum, 0.0)
                mean.value += rate * (centre[:, 0, 0, 0] - mean.value)
                var.value += rate * (unbiased[:, 0, 0, 0] - var.value)
        if isinstance(x, Product):
            return Normalised(x, scale, bias, moments, jax.lax.rsqrt(variance + self.epsilon)[:, 0, 0, 0])
        y = rest * (jax.lax.rsqrt(variance + self.epsilon) * column(scale)) + column(bias)
        return (y if mask is None else jnp.where(mask, y, 0.0)).astype(x.dtype)


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
