"""Space-to-depth: convolutions and pools of small images whose pixels are held in cells, for wide matrix units.

A cell is a square of pixels with all their channels, as one long column: an image [C, H, W] becomes
[side * side * C, H / side, W / side]. A convolution of pixels is then a convolution of 3 x 3 cells, or a product with
one matrix if the image is a single cell. The kernel of cells has many zeros, but it fills the tiles of a matrix unit.
The 16 channels of the papers' CNN would use an eighth of a tile.

The outputs of a cell are ordered by their place in the 2 x 2 square of the pool, then by the pooled pixel, then by
channel. So the pool is the maximum of four slices, and its result is again an image in cells, of half the side.
"""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.devices import backend
from mdfl_jax.models.conv import STAGES, TOGETHER, Together, not_possible
from mdfl_jax.models.model import ModelSettings

TILE = 128  # the side of a matrix unit, by which sides of cells are compared


def best_side(shape: tuple[int, int, int], widths: tuple[int, ...], size: int) -> int:
    """Return the side of the cells with which a network of stages takes the fewest steps of a matrix unit.

    Args:
      shape: (H, W, C) of the images.
      widths: the channels of the stages. Each stage is a convolution and a pool.
      size: the size of the kernels, odd.

    Returns:
      The number of pixels along a cell of the first stage; 0 if pixels by themselves take no more steps, or if no side
      divides the images.
    """
    height, width, _ = shape
    halvings = 2 ** len(widths)
    sides = [side for side in range(halvings, min(height, width) + 1, halvings) if height % side == width % side == 0]
    # The smallest cell, that of the last stage, must reach as far as a kernel does.
    sides = [side for side in sides if 2 * side // halvings >= size // 2]
    return min([0, *sides], key=lambda side: _steps(shape, widths, size, side))


def _steps(shape: tuple[int, int, int], widths: tuple[int, ...], size: int, side: int) -> int:
    """Return the steps for the convolutions of one image, in cells of ``side`` or (0) pixel by pixel."""
    height, width, channels = shape
    total = 0
    for features in widths:
        cells, area = (height // side) * (width // side) if side else height * width, side**2 or 1
        taps = (9 if cells > 1 else 1) if side else size**2
        total += cells * math.ceil(taps * area * channels / TILE) * math.ceil(area * features / TILE)
        height, width, side, channels = height // 2, width // 2, side // 2, features
    return total


def to_cells(x: jax.Array, side: int) -> jax.Array:
    """Put pixels in cells: [C, H, W, B] -> [side * side * C, H / side, W / side, B]."""
    channels, height, width, samples = x.shape
    x = x.reshape(channels, height // side, side, width // side, side, samples)
    return jnp.transpose(x, (2, 4, 0, 1, 3, 5)).reshape(-1, height // side, width // side, samples)


def from_cells(x: jax.Array, side: int) -> jax.Array:
    """Undo `to_cells`: [side * side * C, H / side, W / side, B] -> [C, H, W, B]."""
    _, down, across, samples = x.shape
    x = x.reshape(side, side, -1, down, across, samples)
    return jnp.transpose(x, (2, 3, 0, 4, 1, 5)).reshape(-1, down * side, across * side, samples)


def _convolution(x: jax.Array, kernel: jax.Array, side: int) -> jax.Array:
    """Convolve pixels that are held in cells, with zero padding and stride one.

    Args:
      x: [side * side * C, H', W', B], an image in cells.
      kernel: [size, size, C, O]; size // 2 is at most ``side``, which is even.

    Returns:
      [4 * (side / 2)^2 * O, H', W', B], ordered for `_max_pool`.
    """
    # A kernel reaches at most one cell further, so 3 x 3 cells hold all that it reads; a single cell has no neighbours.
    matrix = expanded(kernel, side, 1 if x.shape[1:3] == (1, 1) else 3).astype(x.dtype)
    if matrix.shape[0] == 1:
        return (matrix[0, 0].T @ x[:, 0, 0])[:, None, None]
    layout = ("CHWN", "HWIO", "CHWN")
    return jax.lax.conv_general_dilated(x, matrix, (1, 1), ((1, 1), (1, 1)), dimension_numbers=layout)


def expanded(kernel: jax.Array, side: int, reach: int) -> jax.Array:
    """Write a kernel of pixels as one of cells: [size, size, C, O] -> [reach, reach, side^2 C, side^2 O].

    Args:
      kernel: [size, size, C, O].
      side: the side of a cell.
      reach: the cells, along one axis, from which an output pixel is computed: 3, or 1 if there is only one cell.
    """
    size, _, channels, features = kernel.shape
    tap = _taps(size, side, reach)  # [inputs, outputs]
    # Each step keeps a long last axis, because a TPU pads short ones to 128 numbers.
    columns = np.tile(np.eye(features, dtype=np.float32), tap.shape[1])
    rows = kernel.astype(jnp.float32).reshape(size**2, channels, features)
    rows = jnp.matmul(rows, columns, precision=jax.lax.Precision.HIGHEST)  # [taps, C, outputs * O], all of them copies
    of_column = np.repeat(tap, features, axis=1)[:, None]
    matrix = sum(jnp.where(of_column == k, rows[k], 0.0) for k in range(size**2))
    return jnp.reshape(matrix, (reach, reach, side**2 * channels, side**2 * features))


def _taps(size: int, side: int, reach: int) -> np.ndarray:
    """Return which tap of a kernel joins each input pixel and each output pixel of a cell; -1: none.

    The inputs are in the order of ``reach`` x ``reach`` cells and of the pixels in a cell, the outputs in that of
    `_max_pool`.
    """
    place = np.arange(reach * side)[:, None] - (reach // 2) * side - np.arange(side) + size // 2  # along one axis
    down, across = place[:, None, :, None], place[None, :, None]
    inside = (down >= 0) & (down < size) & (across >= 0) & (across < size)
    both = np.where(inside, size * down + across, -1)
    both = both.reshape(reach, side, reach, side, side // 2, 2, side // 2, 2)
    return both.transpose(0, 2, 1, 3, 5, 7, 4, 6).reshape(reach**2 * side**2, side**2)


@jax.custom_vjp
def _max_pool(y: jax.Array) -> jax.Array:
    """Take the maximum of each 2 x 2 square of pixels of a `_convolution`: [4 K, H', W', B] -> [K, H', W', B].

    Its gradient is that of `mdfl_jax.models.conv.max_pool`: equal maxima share it, first along a column, then along a
    row. Only ``y`` is kept for it.
    """
    left, right = _columns(y)
    return jnp.maximum(jnp.maximum(*left), jnp.maximum(*right))


def _columns(y: jax.Array) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    upper_left, upper_right, lower_left, lower_right = jnp.split(y, 4)
    return (upper_left, lower_left), (upper_right, lower_right)


def _shares(g: jax.Array, a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the gradients of a and b from that of their maximum."""
    half = jnp.where(a == b, g * 0.5, jnp.zeros_like(g))
    return jnp.where(a > b, g, half), jnp.where(b > a, g, half)


def _pool_forward(y: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _max_pool(y), y


def _pool_backward(y: jax.Array, g: jax.Array) -> tuple[jax.Array]:
    left, right = _columns(y)
    of_left, of_right = _shares(g, jnp.maximum(*left), jnp.maximum(*right))
    (upper_left, lower_left), (upper_right, lower_right) = _shares(of_left, *left), _shares(of_right, *right)
    return (jnp.concatenate([upper_left, upper_right, lower_left, lower_right]),)


_max_pool.defvjp(_pool_forward, _pool_backward)


class Conv(nn.Module):
    """A convolution with its pool and bias of pixels in cells, with the variables of `mdfl_jax.models.conv.Conv`.

    Attributes:
      features: the number of output channels.
      size: the size of the kernel, odd.
      side: the side of the cells of the input; those of the output have half the side.
    """

    features: int
    size: int
    side: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the layer to ``x`` [side * side * C, H', W', B]."""
        shape = (self.size, self.size, x.shape[0] // self.side**2, self.features)
        y = _max_pool(_convolution(x, self.param("kernel", nn.initializers.lecun_normal(), shape), self.side))
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,))
        return y + jnp.tile(bias, y.shape[0] // self.features)[:, None, None, None]


class Stage(nn.Module):
    """A `Conv` and a ReLU; its attributes are those of the `Conv`."""

    width: int
    size: int
    side: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the stage to ``x`` [side * side * C, H', W', B]."""
        return nn.relu(Conv(self.width, self.size, self.side)(x))


def stages(settings: ModelSettings, x: jax.Array) -> jax.Array | None:
    """Apply the stages of a network in cells; None where pixels by themselves take no more steps.

    Args:
      settings: the settings of the model, with its widths and the size of its kernels.
      x: [C, H, W, B] images.

    Raises:
      UserError: if cells are asked for, and there is no side for this network.
    """
    widths, size = settings.numbers.widths, settings.numbers.kernel
    channels, height, width, _ = x.shape
    side = best_side((height, width, channels), widths, size)
    if not side:
        if settings.convolution:
            raise not_possible(settings.convolution, f"this model and images of {height} x {width} pixels")
        return None
    x, stage = to_cells(x, side), nn.remat(Stage) if settings.remat else Stage
    for i, features in enumerate(widths):
        x = stage(features, size, side, name=f"stage_{i}")(x)
        side //= 2
    return from_cells(x, side)


TOGETHER.register("space_to_depth", doc="Stages of small images in cells, for wide matrix units.")(
    Together(STAGES, stages, pays=lambda: backend() == "tpu")
)
