"""The convolution of stacked clients, with the samples on the last axis.

Every client has its own kernel, so ``vmap`` of a library convolution becomes a grouped convolution, which is slow on
CPUs. Here activations are [channels, height, width, samples], and a convolution is a product of matrices. All copies
are then of long contiguous parts of memory, and pooling, biases and activations run along the samples. The forms and
their times are in benchmarks/README.md.
"""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.core.devices import backend
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.models import filtering_2d
from mdfl_jax.models.filtering import filtered, filtered_gradients, moved, total

FORMS = ("patches", "filtering", "library")
SMALL_PATCHES = 2**22  # bytes; with larger patches, a GPU uses the library's convolution


def default_form(kernel_shape: tuple[int, ...], dtype: jnp.dtype, stride: int = 1, pixels: int = 0) -> str:
    """Return the fastest form of a convolution on the target, by the measurements in benchmarks/README.md.

    On a CPU, the form is minimal filtering for kernels of size 3 to 5 with several input channels, stride one and
    float32; otherwise it is patches. Minimal filtering increases rounding errors (along the width about ten times), for
    which bfloat16 is not precise enough. On a TPU, the form is the library's. On a GPU, it is the library's if the
    patches would be large; if they are small, it is patches, a batched product for clients that are mapped together.

    Args:
      kernel_shape: (size, size, C, O).
      dtype: the type of the activations.
      stride: the stride of the convolution.
      pixels: H * W * B of the output.
    """
    size, _, channels, _ = kernel_shape
    if backend() == "cpu":
        small = 3 <= size <= 5 and channels > 1 and stride == 1
        return "filtering" if small and dtype == jnp.float32 else "patches"
    if backend() == "tpu":
        return "library"
    return "library" if size * size * channels * pixels * dtype.itemsize > SMALL_PATCHES else "patches"


def num_points(width: int, size: int) -> int:
    """Return the number of points of minimal filtering, 6 or 8, that needs fewer products for a row.

    Args:
      width: the length of the row.
      size: the size of the kernel.
    """
    usable = [points for points in (6, 8) if points > size]
    return min(usable, key=lambda points: points * -(-width // (points + 1 - size)))


def patches(x: jax.Array, size: int, stride: int = 1) -> jax.Array:
    """Collect the ``size`` x ``size`` patch around every ``stride``-th pixel, with zeros outside of the image.

    Args:
      x: [C, H, W, B].
      size: the height and width of a patch.
      stride: the distance of two patches in pixels.

    Returns:
      [size^2 C, H', W', B] with H' = ceil(H / stride) and W' = ceil(W / stride).
    """
    before, after = (size - 1) // 2, size // 2
    height, width = x.shape[1:3]
    padded = jnp.pad(x, [(0, 0), (before, after), (before, after), (0, 0)])
    shifted = [padded[:, i : i + height : stride, j : j + width : stride] for i in range(size) for j in range(size)]
    return jnp.concatenate(shifted, axis=0)


def _from_patches(columns: jax.Array, shape: tuple[int, ...], size: int, stride: int) -> jax.Array:
    """Apply the transpose of `patches`: [size^2 C, H', W', B] -> ``shape`` [C, H, W, B].

    At stride one, it adds first along the width and then along the height. Each pixel is then a sum of 2 * size numbers
    instead of size * size.
    """
    if stride > 1:
        like = jax.ShapeDtypeStruct(shape, columns.dtype)
        return jax.linear_transpose(partial(patches, size=size, stride=stride), like)(columns)[0]
    before = (size - 1) // 2
    columns = columns.reshape(size, size, *shape)
    rows = total([moved(columns[:, j], j - before, axis=3) for j in range(size)])
    return total([moved(rows[i], i - before, axis=1) for i in range(size)])


def _product(weights: jax.Array, columns: jax.Array) -> jax.Array:
    """Multiply a matrix [O, K] by patches [K, H, W, B] -> [O, H, W, B]."""
    return (weights @ columns.reshape(columns.shape[0], -1)).reshape(weights.shape[0], *columns.shape[1:])


def _library(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    size = kernel.shape[0]
    padding = ((size - 1) // 2, size // 2)
    layout = ("CHWN", "HWIO", "CHWN")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), (padding, padding), dimension_numbers=layout)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def convolution(x: jax.Array, kernel: jax.Array, form: str = "patches", stride: int = 1) -> jax.Array:
    """Convolution with zero padding of (size - 1) / 2 on each side. At stride one it keeps the height and the width.

    For the backward pass, only x and the kernel are kept. The patches or transformed inputs, which are several times
    larger, are computed again for the gradient of the kernel.

    Args:
      x: [C, H, W, B] activations, samples last.
      kernel: [size, size, C, O], size odd.
      form: one of `FORMS`: patches times a matrix ("patches"), minimal filtering ("filtering", for sizes 3 to 7 and
        stride one: `mdfl_jax.models.filtering`, or `filtering_2d` where it is faster), or the library's ("library").
      stride: the distance of two output pixels in input pixels, in both directions.

    Returns:
      [O, H', W', B] with H' = ceil(H / stride) and W' = ceil(W / stride).

    Raises:
      UserError: for an unknown form.
    """
    if form not in FORMS:
        raise UserError(f"convolution: {unknown_name('form', form, FORMS)}")
    if form == "library":
        return _library(x, kernel, stride)
    if form == "filtering":
        points = num_points(x.shape[2], kernel.shape[0])
        both = filtering_2d.pays(x, kernel.shape, points)
        return filtering_2d.filtered_2d(x, kernel, points) if both else filtered(x, kernel, points)
    return _product(kernel.reshape(-1, kernel.shape[-1]).T, patches(x, kernel.shape[0], stride))


def _forward(x: jax.Array, kernel: jax.Array, form: str, stride: int) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return convolution(x, kernel, form, stride), (x, kernel)


def _backward(form: str, stride: int, saved: tuple[jax.Array, jax.Array], dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, kernel = saved
    size = kernel.shape[0]
    if form == "library":
        return jax.vjp(partial(_library, stride=stride), x, kernel)[1](dy)
    if form == "filtering":
        points = num_points(x.shape[2], size)
        both = filtering_2d.pays(x, kernel.shape, points)
        return (filtering_2d.filtered_2d_gradients if both else filtered_gradients)(x, kernel, dy, points)
    columns = patches(x, size, stride)
    d_kernel = (columns.reshape(columns.shape[0], -1) @ dy.reshape(dy.shape[0], -1).T).reshape(kernel.shape)
    d_columns = _product(kernel.reshape(-1, kernel.shape[-1]), dy)
    return _from_patches(d_columns, x.shape, size, stride), d_kernel


convolution.defvjp(_forward, _backward)


def max_pool(x: jax.Array) -> jax.Array:
    """Take the maximum of each 2 x 2 square: [C, H, W, B] -> [C, H // 2, W // 2, B].

    If a side has an odd number of pixels, the last row or column is left out.
    """
    channels, height, width, samples = x.shape
    # Reshapes, since a TPU's compiler (libtpu 0.0.42.1) aborts on strided slices of two to four runs mapped together.
    x = x[:, : height // 2 * 2, : width // 2 * 2]
    x = x.reshape(channels, height // 2, 2, width // 2 * 2, samples)
    rows = jnp.maximum(x[:, :, 0], x[:, :, 1]).reshape(channels, height // 2, width // 2, 2, samples)
    return jnp.maximum(rows[:, :, :, 0], rows[:, :, :, 1])


class Conv(nn.Module):
    """A convolution layer, samples last: [C, H, W, B] -> [features, H', W', B].

    Attributes:
      features: the number of output channels.
      size: the height and width of the kernel, odd.
      form: one of `FORMS`; empty: `default_form`. Minimal filtering is replaced by patches where the stride is not one.
      stride: the distance of two output pixels in input pixels.
      use_bias: whether to add one number for each channel.
      kernel_init: the initialiser of the kernel.
      pool: whether to apply `max_pool` before the bias is added. The result is the same as with the pool after the
        bias, with a quarter of the additions.
    """

    features: int
    size: int = 3
    form: str = ""
    stride: int = 1
    use_bias: bool = True
    kernel_init: nn.initializers.Initializer = nn.initializers.lecun_normal()
    pool: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the convolution to ``x`` [C, H, W, B]."""
        shape = (self.size, self.size, x.shape[0], self.features)
        kernel = self.param("kernel", self.kernel_init, shape)
        pixels = x.size // x.shape[0] // self.stride**2
        form, stride = self.form or default_form(shape, x.dtype, self.stride, pixels), self.stride
        if self.size == 1:  # a product with every stride-th pixel
            x, form, stride = x[:, ::stride, ::stride], "patches" if form == "filtering" else form, 1
        y = convolution(x, kernel, "patches" if form == "filtering" and stride > 1 else form, stride)
        y = max_pool(y) if self.pool else y
        if not self.use_bias:
            return y
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,))
        return y + bias[:, None, None, None]
