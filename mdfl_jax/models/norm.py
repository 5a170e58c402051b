"""Normalisation with the samples on the last axis: of a sample's channels in groups, or of a channel over the batch."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError, unknown_name

NORMS = ("batch", "group", "none")


class GroupNorm(nn.Module):
    """Group normalisation (Wu and He, ECCV 2018), samples last: each sample's channels in groups to mean 0, variance 1.

    Variances are taken as mean squares less squared means, in float32: one pass over the activations.

    Attributes:
      groups: number of groups; it divides the channels.
      epsilon: added to the variance.
    """

    groups: int
    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalises ``x`` [C, H, W, B]; scale and bias are one a channel."""
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
    """Batch normalisation (Ioffe and Szegedy, ICML 2015), samples last: each channel to mean 0, variance 1.

    In training, where a mask is given, by the batch's own mean and variance, and the running ones move towards them:
    mean <- (1 - momentum) mean + momentum * batch mean, and the same of the variance, the batch's without bias. These
    are the conventions of PyTorch. Samples outside of the mask count for nothing and come out as zeros, so that neither
    an empty batch nor one of a single sample lets them grow without bound. Without a mask, by the running ones.

    Attributes:
      momentum: of the running mean and variance.
      epsilon: added to the variance.
    """

    momentum: float = 0.1
    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Normalises ``x`` [C, H, W, B]; ``mask`` [B] bool says which samples there are, in training."""
        channels, height, width, _ = x.shape
        scale = self.param("scale", nn.initializers.ones_init(), (channels,))
        bias = self.param("bias", nn.initializers.zeros_init(), (channels,))
        mean = self.variable("batch_stats", "mean", jnp.zeros, (channels,), jnp.float32)
        var = self.variable("batch_stats", "var", jnp.ones, (channels,), jnp.float32)
        wide = x.astype(jnp.float32)
        centre, variance = mean.value, jnp.maximum(var.value, 0.0)  # a compressor's noise may push it there
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
    """One of `NORMS` by its name.

    Attributes:
      kind: batch, group or none.
      groups: of the group normalisation.
    """

    kind: str
    groups: int

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Normalises ``x`` [C, H, W, B]; ``mask`` [B] is given in training."""
        if self.kind == "batch":
            return BatchNorm(name="batch")(x, mask)
        return GroupNorm(self.groups, name="group")(x) if self.kind == "group" else x


def check_norm(kind: str, widths: tuple[int, ...], groups: int) -> None:
    """Checks a normalisation for channels of these numbers.

    Raises:
      UserError: for an unknown one, or numbers of channels that the groups do not divide.
    """
    if kind not in NORMS:
        raise UserError(unknown_name("model.norm", kind, NORMS))
    if kind == "group" and any(width % groups for width in widths):
        raise UserError(f"model.base_width gives {widths} channels; with model.norm=group {groups} must divide them")
