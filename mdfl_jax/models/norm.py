"""Group normalisation and batch normalisation, with the samples on the last axis."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError, unknown_name

NORMS = ("batch", "group", "none")


class GroupNorm(nn.Module):
    """Group normalisation (Wu and He, ECCV 2018), samples last.

    It normalises each sample's channels, in groups, to mean 0 and variance 1. A variance is the mean of the squares
    minus the square of the mean, in float32, which needs only one pass over the activations.

    Attributes:
      groups: the number of groups, a divisor of the number of channels.
      epsilon: a small number that is added to the variance.
    """

    groups: int
    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalise ``x`` [C, H, W, B]; each channel has one scale and one bias."""
        channels, height, width, samples = x.shape
        scale = self.param("scale", nn.initializers.ones_init(), (channels,))
        bias = self.param("bias", nn.initializers.zeros_init(), (channels,))
        wide = x.astype(jnp.float32)

        def mean(a: jax.Array) -> jax.Array:
            sums = jnp.sum(a, axis=(1, 2)).reshape(self.groups, -1, samples).sum(axis=1)
            return jnp.repeat(sums / (channels // self.groups * height * width), channels // self.groups, axis=0)

        centre = mean(wide)
        variance = jnp.maximum(mean(wide * wide) - centre * centre, 0.0)
        factor = jax.lax.rsqrt(variance + self.epsilon) * scale[:, None]
        shift = bias[:, None] - centre * factor
        return (wide * factor[:, None, None] + shift[:, None, None]).astype(x.dtype)


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
    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Normalise ``x`` [C, H, W, B]; ``mask`` [B] bool is given only in training and is False for padding."""
        channels, height, width, _ = x.shape
        scale = self.param("scale", nn.initializers.ones_init(), (channels,))
        bias = self.param("bias", nn.initializers.zeros_init(), (channels,))
        mean = self.variable("batch_stats", "mean", jnp.zeros, (channels,), jnp.float32)
        var = self.variable("batch_stats", "var", jnp.ones, (channels,), jnp.float32)
        wide = x.astype(jnp.float32)
        centre, variance = mean.value, jnp.maximum(var.value, 0.0)  # a compressor's noise may make it negative
        if mask is not None:
            present = jnp.where(mask, wide, 0.0)
            count = jnp.sum(mask) * float(height * width)
            divisor = jnp.maximum(count, 1.0)
            centre = jnp.sum(present, axis=(1, 2, 3)) / divisor
            squares = jnp.sum(present * present, axis=(1, 2, 3)) / divisor
            spread = jnp.maximum(squares - centre * centre, 0.0)
            variance = jnp.where(count > 0, spread, 1.0)
            if not self.is_initializing():
                rate = jnp.where(count > 0, self.momentum, 0.0)
                mean.value += rate * (centre - mean.value)
                var.value += rate * (spread * divisor / jnp.maximum(count - 1.0, 1.0) - var.value)
        factor = jax.lax.rsqrt(variance + self.epsilon) * scale
        shift = bias - centre * factor
        y = wide * factor[:, None, None, None] + shift[:, None, None, None]
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
    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
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
