"""The convolution of stacked clients: patches times a matrix, with the samples on the last axis.

Every client has its own kernel, so ``vmap`` of a library convolution becomes a grouped one, which CPUs run badly. Here
activations are [channels, height, width, samples]: patches are then copies of long contiguous runs, and pooling,
biases and activations run along the samples, whatever the number of channels (measured in benchmarks/README.md).
"""

import flax.linen as nn
import jax
import jax.numpy as jnp


def patches(x: jax.Array, size: int) -> jax.Array:
    """The ``size`` x ``size`` surroundings of each pixel, zero outside: [C, H, W, B] -> [size * size * C, H, W, B]."""
    before, after = (size - 1) // 2, size // 2
    height, width = x.shape[1:3]
    padded = jnp.pad(x, [(0, 0), (before, after), (before, after), (0, 0)])
    shifted = [padded[:, i : i + height, j : j + width] for i in range(size) for j in range(size)]
    return jnp.concatenate(shifted, axis=0)


def _product(weights: jax.Array, columns: jax.Array) -> jax.Array:
    """[O, K] times [K, H, W, B] -> [O, H, W, B]."""
    return (weights @ columns.reshape(columns.shape[0], -1)).reshape(weights.shape[0], *columns.shape[1:])


@jax.custom_vjp
def convolution(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Convolution of stride one that keeps height and width (zero padding).

    Its derivative keeps x and not the patches, which are size * size times larger: they are made again for the kernel's
    gradient, and the input's gradient is the convolution of the output's with the kernel turned round.

    Args:
      x: [C, H, W, B] activations, samples last.
      kernel: [size, size, C, O], size odd.

    Returns:
      [O, H, W, B].
    """
    return _product(kernel.reshape(-1, kernel.shape[-1]).T, patches(x, kernel.shape[0]))


def _forward(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return convolution(x, kernel), (x, kernel)


def _backward(saved: tuple[jax.Array, jax.Array], dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, kernel = saved
    columns = patches(x, kernel.shape[0])
    d_kernel = (columns.reshape(columns.shape[0], -1) @ dy.reshape(dy.shape[0], -1).T).reshape(kernel.shape)
    turned = jnp.swapaxes(kernel[::-1, ::-1], 2, 3)
    return convolution(dy, turned), d_kernel


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
    """

    features: int
    size: int = 3

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the convolution to ``x`` [C, H, W, B]."""
        shape = (self.size, self.size, x.shape[0], self.features)
        kernel = self.param("kernel", nn.initializers.lecun_normal(), shape)
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,))
        return convolution(x, kernel) + bias[:, None, None, None]
