"""The convolution of stacked clients, with the samples on the last axis.

Every client has its own kernel, so ``vmap`` of a library convolution becomes a grouped one, which CPUs run badly. Here
activations are [channels, height, width, samples] and a convolution is a product of matrices: whatever is copied is
long contiguous runs, and pooling, biases and activations run along the samples. The forms and their times are in
benchmarks/README.md.
"""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.models.filtering import filtered, filtered_gradients, total

FORMS = ("patches", "filtering", "library")


def default_form(kernel_shape: tuple[int, ...], dtype: jnp.dtype) -> str:
    """The fastest form found: minimal filtering on CPU for several input channels, patches elsewhere.

    Minimal filtering magnifies rounding (by some ten times), which bfloat16 has nothing to spare for.
    """
    size, _, channels, _ = kernel_shape
    small = 3 <= size <= 5 and channels > 1
    return "filtering" if jax.default_backend() == "cpu" and small and dtype == jnp.float32 else "patches"


def num_points(width: int, size: int) -> int:
    """6 or 8 points of minimal filtering, whichever needs fewer products for a row of that width."""
    usable = [points for points in (6, 8) if points > size]
    return min(usable, key=lambda points: points * -(-width // (points + 1 - size)))


def patches(x: jax.Array, size: int) -> jax.Array:
    """The ``size`` x ``size`` surroundings of each pixel, zero outside: [C, H, W, B] -> [size * size * C, H, W, B]."""
    before, after = (size - 1) // 2, size // 2
    height, width = x.shape[1:3]
    padded = jnp.pad(x, [(0, 0), (before, after), (before, after), (0, 0)])
    shifted = [padded[:, i : i + height, j : j + width] for i in range(size) for j in range(size)]
    return jnp.concatenate(shifted, axis=0)


def _from_patches(columns: jax.Array, size: int, channels: int) -> jax.Array:
    """The transpose of `patches`, first along the width, then along the height: [size * size * C, H, W, B] -> [C, ...].

    In two steps each pixel is a sum of 2 * size numbers instead of size * size.
    """
    height, width, samples = columns.shape[1:]
    last, before = size - 1, (size - 1) // 2
    columns = columns.reshape(size, size, channels, height, width, samples)
    columns = jnp.pad(columns, [(0, 0)] * 4 + [(last, last), (0, 0)])
    first = [last + before - i for i in range(size)]
    rows = total([columns[:, j, :, :, f : f + width] for j, f in enumerate(first)])
    rows = jnp.pad(rows, [(0, 0)] * 2 + [(last, last), (0, 0), (0, 0)])
    return total([rows[i, :, f : f + height] for i, f in enumerate(first)])


def _product(weights: jax.Array, columns: jax.Array) -> jax.Array:
    """[O, K] times [K, H, W, B] -> [O, H, W, B]."""
    return (weights @ columns.reshape(columns.shape[0], -1)).reshape(weights.shape[0], *columns.shape[1:])


def _library(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("CHWN", "HWIO", "CHWN"))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolution(x: jax.Array, kernel: jax.Array, form: str = "patches") -> jax.Array:
    """Convolution of stride one that keeps height and width (zero padding).

    Its derivative keeps x and not the patches or transformed inputs, which are several times larger: they are made
    again for the kernel's gradient.

    Args:
      x: [C, H, W, B] activations, samples last.
      kernel: [size, size, C, O], size odd.
      form: one of `FORMS`: patches times a matrix, minimal filtering (`mdfl_jax.models.filtering`, sizes 3 to 7), or
        the library's convolution.

    Returns:
      [O, H, W, B].

    Raises:
      UserError: for an unknown form.
    """
    if form not in FORMS:
        raise UserError(f"convolution: {unknown_name('form', form, FORMS)}")
    if form == "library":
        return _library(x, kernel)
    if form == "filtering":
        return filtered(x, kernel, num_points(x.shape[2], kernel.shape[0]))
    return _product(kernel.reshape(-1, kernel.shape[-1]).T, patches(x, kernel.shape[0]))


def _forward(x: jax.Array, kernel: jax.Array, form: str) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return convolution(x, kernel, form), (x, kernel)


def _backward(form: str, saved: tuple[jax.Array, jax.Array], dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, kernel = saved
    size, channels = kernel.shape[0], kernel.shape[2]
    if form == "library":
        return jax.vjp(_library, x, kernel)[1](dy)
    if form == "filtering":
        return filtered_gradients(x, kernel, dy, num_points(x.shape[2], size))
    columns = patches(x, size)
    d_kernel = (columns.reshape(columns.shape[0], -1) @ dy.reshape(dy.shape[0], -1).T).reshape(kernel.shape)
    d_columns = _product(kernel.reshape(-1, kernel.shape[-1]), dy)
    return _from_patches(d_columns, size, channels), d_kernel


convolution.defvjp(_forward, _backward)


def max_pool(x: jax.Array) -> jax.Array:
    """Largest of each 2 x 2 square; an odd last row or column is left out: [C, H, W, B] -> [C, H // 2, W // 2, B]."""
    x = x[:, : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2]
    rows = jnp.maximum(x[:, 0::2], x[:, 1::2])
    return jnp.maximum(rows[:, :, 0::2], rows[:, :, 1::2])


class Conv(nn.Module):
    """A convolution with bias, samples last: [C, H, W, B] -> [features, H, W, B].

    Attributes:
      features: number of output channels.
      size: kernel height and width, odd.
      form: one of `FORMS`; empty takes `default_form`.
    """

    features: int
    size: int = 3
    form: str = ""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the convolution to ``x`` [C, H, W, B]."""
        shape = (self.size, self.size, x.shape[0], self.features)
        kernel = self.param("kernel", nn.initializers.lecun_normal(), shape)
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,))
        form = self.form or default_form(shape, x.dtype)
        return convolution(x, kernel, form) + bias[:, None, None, None]


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
