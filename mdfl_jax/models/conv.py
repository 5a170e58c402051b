"""The convolution of stacked clients, with the samples on the last axis.

Every client has its own kernel, so ``vmap`` of a library convolution becomes a grouped convolution, which is slow on
CPUs. Here activations are [channels, height, width, samples], and a convolution is a product of matrices. All copies
are then of long contiguous parts of memory, and pooling, biases and activations run along the samples. The forms and
their times are in benchmarks/tried.md.

**Minimal filtering along the width.** A filter with k taps takes m * k multiplications for m outputs. Computed from the
values of polynomials at m + k - 1 points, it takes only m + k - 1 multiplications (Cook and Toom; Winograd; for layers
of networks: Lavin and Gray, CVPR 2016). Here only the width is transformed, and the height keeps its k shifted rows. A
convolution therefore becomes m + k - 1 products of matrices with k * C columns. With the points 0, +-1, +-2, +-1/2 and
infinity, the results agree with the direct form to about 1e-6.

**In both directions**: F(m x m, k x k) of Lavin and Gray. Tiles of P x P inputs, P = m + k - 1, become P^2 products of
matrices with C columns. For 3x3 kernels and six points, this takes a quarter of the multiplications of the direct form,
and half of the multiplications and copies of filtering along the width alone. Its rounding errors are larger: the
results agree with the direct form to about 1e-5. It is faster where the products are long; see `pays_in_both`.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from mdfl_jax.core.devices import backend
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.registry import Registry

_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)  # the first five or all of them, with infinity
LONG, SAMPLES = 512, 32  # the smallest number of columns of a product, and the smallest number of samples
CHANNELS = (16, 64)  # the smallest and the largest number of channels; measured in benchmarks/tried.md
OF_A_GPU = "of a GPU"  # the name of `_BY_MODELS`


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def convolution(x: jax.Array, kernel: jax.Array, form: str = "patches", stride: int = 1) -> jax.Array:
    """Convolution with zero padding of (size - 1) / 2 on each side. At stride one it keeps the height and the width.

    For the backward pass, only x (in the format of the form) and the kernel are kept. The patches or transformed
    inputs, which are several times larger, are computed again for the gradient of the kernel.

    Args:
      x: [C, H, W, B] activations, samples last.
      kernel: [size, size, C, O], size odd.
      form: one of `FORMS`: patches times a matrix ("patches"), minimal filtering ("filtering", for sizes 3 to 7 and
        stride one: `filtered`, or `filtered_2d` where it is faster), the library's ("library"), or one of
        `mdfl_jax.contrib.convolutions`.
      stride: the distance of two output pixels in input pixels, in both directions.

    Returns:
      [O, H', W', B] with H' = ceil(H / stride) and W' = ceil(W / stride).

    Raises:
      UserError: for an unknown form, one of `TOGETHER`, which no convolution has by itself, or one that is not
        possible here; for another stride than one with a form that is of stride one.
    """
    return _form(form, stride).forward(x, kernel, stride)[0]


def _forward(x: jax.Array, kernel: jax.Array, form: str, stride: int) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    y, kept = _form(form, stride).forward(x, kernel, stride)
    return y, (kept, kernel)


def _backward(form: str, stride: int, saved: tuple[jax.Array, jax.Array], dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _form(form, stride).gradients(*saved, dy, stride)


convolution.defvjp(_forward, _backward)


class ConvForm(NamedTuple):
    """How a convolution and its gradients are computed.

    Attributes:
      forward: (x, kernel, stride) -> (the result, x as ``gradients`` takes it).
      gradients: (x as from ``forward``, kernel, dy, stride) -> (dx, d_kernel).
      of_stride_one: whether the form is for stride one only, and for kernels of more than one pixel.
      of_float32: whether the form is in float32 only.
      pays: (kernel shape, H, W, B) -> whether it is the fastest form on a CPU, for stride one, sizes 3 to 7 and
        float32; None: `default_form` decides.
    """

    forward: Callable[[jax.Array, jax.Array, int], tuple[jax.Array, jax.Array]]
    gradients: Callable[[jax.Array, jax.Array, jax.Array, int], tuple[jax.Array, jax.Array]]
    of_stride_one: bool = False
    of_float32: bool = False
    pays: Callable[[Sequence[int], Sequence[int]], bool] | None = None


FORMS: Registry[ConvForm] = Registry("form of a convolution", home="mdfl_jax.models", contrib="convolutions")
"""The forms by name."""


class Together(NamedTuple):
    """A form of several layers together.

    Attributes:
      layers: which layers it computes, in words: `STAGES` or `BOTTLENECKS`.
      instead: what a network with these layers has instead of them.
      pays: () -> whether it is the fastest form on the target.
    """

    layers: str
    instead: Any
    pays: Callable[[], bool]


STAGES = "stages of convolutions and pools without a normalisation"
BOTTLENECKS = "bottlenecks with batch normalisation"
TOGETHER: Registry[Together] = Registry("form of several layers", contrib="convolutions")
"""The forms of several layers by name."""


def together_form(form: str, layers: str) -> Any:
    """Return `Together.instead` of the form of some layers; None: each layer is computed by itself.

    Args:
      form: the form asked for, one of `FORMS` or `TOGETHER`; empty: the fastest.
      layers: the layers that a network has.
    """
    for name in TOGETHER:
        if TOGETHER[name].layers == layers and (name == form or (not form and TOGETHER[name].pays())):
            return TOGETHER[name].instead
    return None


def _form(name: str, stride: int) -> ConvForm:
    """Return a form by its name, or raise `UserError` as `convolution` does."""
    if name in TOGETHER:
        raise not_possible(name, f"this model, which has no {TOGETHER[name].layers}")
    if name == OF_A_GPU:
        return _BY_MODELS
    if name not in FORMS:
        raise UserError(f"convolution: {unknown_name('form', name, (*FORMS, *TOGETHER))}{FORMS.lacks()}")
    if FORMS[name].of_stride_one and stride > 1:
        raise UserError(f"convolution: the form {name} is for stride one, not {stride}")
    return FORMS[name]


def _keeps_x(function: Callable[..., jax.Array]) -> Callable[..., tuple[jax.Array, jax.Array]]:
    return lambda x, *args: (function(x, *args), x)


def _by_models(alone: Callable[..., Any], mapped: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function ``alone``, in whose place `jax.vmap` over several models maps the function ``mapped``.

    Both take arrays, and the stride last.
    """

    def either(*args: Any) -> Any:
        *arrays, stride = args
        # Only the rule of `vmap` knows whether models are mapped together: the model's own code is that of one model.
        function = custom_vmap(partial(alone, stride=stride))

        @function.def_vmap
        def over_models(count: int, is_mapped: list[bool], *arrays: Any) -> tuple[Any, Any]:
            if count == 1:  # an axis of one model is taken off, since a model by itself has its own fastest form
                one = (x[0] if has_axis else x for x, has_axis in zip(arrays, is_mapped))
                result = jax.tree.map(lambda x: x[None], function(*one))
            else:
                axes = [0 if has_axis else None for has_axis in is_mapped]
                result = jax.vmap(partial(mapped, stride=stride), axes)(*arrays)
            return result, jax.tree.map(lambda _: True, result)

        return function(*arrays)

    return either


def _library(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    size = kernel.shape[0]
    padding = ((size - 1) // 2, size // 2)
    layout = ("CHWN", "HWIO", "CHWN")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), (padding, padding), dimension_numbers=layout)


def _library_gradients(x: jax.Array, kernel: jax.Array, dy: jax.Array, stride: int) -> tuple[jax.Array, jax.Array]:
    return jax.vjp(partial(_library, stride=stride), x, kernel)[1](dy)


def _of_patches(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    return _product(kernel.reshape(-1, kernel.shape[-1]).T, patches(x, kernel.shape[0], stride))


def _of_patches_gradients(x: jax.Array, kernel: jax.Array, dy: jax.Array, stride: int) -> tuple[jax.Array, jax.Array]:
    columns = patches(x, kernel.shape[0], stride)  # made again: kept, they would take size^2 times the memory of x
    d_kernel = (columns.reshape(columns.shape[0], -1) @ dy.reshape(dy.shape[0], -1).T).reshape(kernel.shape)
    d_columns = _product(kernel.reshape(-1, kernel.shape[-1]), dy)
    return _from_patches(d_columns, x.shape, kernel.shape[0], stride), d_kernel


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


class Transforms(NamedTuple):
    """The matrices of F(m, k) with P = m + k - 1 points: outputs = outer @ ((kernel @ taps) * (inner @ inputs)).

    Attributes:
      inner: [P, P] transforms the inputs (B^T in Lavin and Gray).
      kernel: [P, k] transforms the taps (G).
      outer: [m, P] transforms the products (A^T).
    """

    inner: np.ndarray
    kernel: np.ndarray
    outer: np.ndarray


@cache
def transforms(taps: int, num_points: int) -> Transforms:
    """Compute the matrices of F(num_points + 1 - taps, taps), by transposing Toom and Cook's polynomial product.

    Args:
      taps: the size of the kernel, k.
      num_points: P, 6 or 8.

    >>> t = transforms(3, 6)
    >>> taps, signal = np.array([1.0, 2.0, 3.0]), np.arange(6.0)
    >>> (t.outer @ ((t.kernel @ taps) * (t.inner @ signal))).round(4).tolist()
    [8.0, 14.0, 20.0, 26.0]
    """
    points = np.array(_POINTS[: num_points - 1])
    # The inputs' polynomials are zero at all points but one, and that of infinity at all. All numbers are exact.
    others = [*(np.delete(points, i) for i in range(len(points))), points]
    divisors = np.array([*(np.prod(point - of) for point, of in zip(points, others)), 1.0])
    inner = np.array([np.pad(np.poly(of)[::-1], (0, num_points - 1 - len(of))) for of in others])
    # A factor may move between the inputs and the taps; it keeps the inputs' coefficients moderate.
    sizes = np.abs(inner)
    scale = np.max(sizes, axis=1) if num_points > 6 else np.min(sizes, axis=1, where=sizes > 0, initial=np.inf)
    scale *= np.sign(divisors)
    powers = lambda width: np.vstack([points[:, None] ** np.arange(width), np.eye(width)[-1:]])  # noqa: E731
    kernel = powers(taps) * scale[:, None] / divisors[:, None]
    as_single = lambda matrix: (matrix + 0.0).astype(np.float32)  # noqa: E731 - without negative zeros
    return Transforms(as_single(inner / scale[:, None]), as_single(kernel), as_single(powers(num_points + 1 - taps).T))


def num_points(width: int, size: int) -> int:
    """Return the number of points of minimal filtering, 6 or 8, that needs fewer products for a row.

    Args:
      width: the length of the row.
      size: the size of the kernel.
    """
    usable = [points for points in (6, 8) if points > size]
    return min(usable, key=lambda points: points * -(-width // (points + 1 - size)))


def pays_in_both(x: jax.Array | jax.ShapeDtypeStruct, kernel_shape: tuple[int, ...], num_points: int) -> bool:
    """Tell whether filtering in both directions is faster than along the width alone, and precise enough.

    It is not precise enough in bfloat16.

    Args:
      x: [C, H, W, B] inputs, or their shape.
      kernel_shape: (k, k, C, O).
      num_points: P.
    """
    shape = x.shape
    taps, _, channels, features = kernel_shape
    down, across = (tiles(size, taps, num_points)[1] for size in shape[1:3])
    long = shape[3] >= SAMPLES and down * across * shape[3] >= LONG
    return (
        long
        and x.dtype.itemsize >= 4
        and min(channels, features) >= CHANNELS[0]
        and max(channels, features) <= CHANNELS[1]
    )


def _filtered(x: jax.Array, kernel: jax.Array, _: int) -> jax.Array:
    points = num_points(x.shape[2], kernel.shape[0])
    return (filtered_2d if pays_in_both(x, kernel.shape, points) else filtered)(x, kernel, points)


def _filtered_gradients(x: jax.Array, kernel: jax.Array, dy: jax.Array, _: int) -> tuple[jax.Array, jax.Array]:
    points = num_points(x.shape[2], kernel.shape[0])
    gradients = filtered_2d_gradients if pays_in_both(x, kernel.shape, points) else filtered_gradients
    return gradients(x, kernel, dy, points)


def total(terms: Sequence[jax.Array]) -> jax.Array:
    """Return the sum of one or more terms of the same shape."""
    return sum(terms[1:], terms[0])


def moved(x: jax.Array, steps: int, axis: int) -> jax.Array:
    """Shift x along an axis and fill with zeros; a positive ``steps`` shifts towards larger indices."""
    pads = [(0, 0, 0)] * x.ndim
    pads[axis] = (steps, -steps, 0)
    return jax.lax.pad(x, jnp.zeros((), x.dtype), pads)


def combine(coefficients: np.ndarray, parts: Sequence[jax.Array]) -> jax.Array:
    """Return the linear combination of arrays of the same shape.

    It is written as separate terms, so that the compiler fuses them. Coefficients of 0 and 1 cost no multiplication.
    """
    return total([part if c == 1 else float(c) * part for c, part in zip(coefficients, parts) if c != 0])


def tiles(width: int, taps: int, num_points: int) -> tuple[int, int]:
    """Return (m, number of tiles) for a row or column of the length ``width``."""
    outputs = num_points + 1 - taps
    return outputs, -(-width // outputs)


def overlapped(parts: Sequence[jax.Array], m: int, axis: int) -> jax.Array:
    """Add tiles of P elements, which start m elements apart, into one axis.

    Args:
      parts: P arrays; array i holds element i of every tile, with the tiles along ``axis``.
      m: the distance between the starts of two tiles.
      axis: the axis of the tiles.

    Returns:
      An array whose ``axis`` has all elements, summed where tiles overlap.
    """
    overlap = -(-len(parts) // m)

    def shifted(part: jax.Array, steps: int) -> jax.Array:
        pads = [(0, 0)] * part.ndim
        pads[axis] = (steps, overlap - 1 - steps)
        return jnp.pad(part, pads)

    pixels = [total([shifted(parts[q + s * m], s) for s in range(overlap) if q + s * m < len(parts)]) for q in range(m)]
    together = jnp.stack(pixels, axis=axis + 1)
    return together.reshape(*together.shape[:axis], -1, *together.shape[axis + 2 :])


def filtered(x: jax.Array, kernel: jax.Array, num_points: int) -> jax.Array:
    """Convolution of stride one that keeps height and width, by minimal filtering along the width.

    Args:
      x: [C, H, W, B] activations, samples last.
      kernel: [k, k, C, O], k odd and less than ``num_points``.
      num_points: P, 6 or 8.

    Returns:
      [O, H, W, B].
    """
    t, taps = transforms(kernel.shape[0], num_points), kernel.shape[0]
    height, width, samples = x.shape[1:]
    m, count = tiles(width, taps, num_points)
    # One product of matrices for each point; the tiles and samples of all rows are its columns, so products are long.
    products = _transformed_kernel(kernel, num_points) @ _rows_of_inputs(x, taps, num_points)
    parts = list(products.reshape(num_points, -1, height, count, samples))
    outputs = jnp.stack([combine(row, parts) for row in t.outer], axis=3)
    return outputs.reshape(-1, height, count * m, samples)[:, :, :width]


def filtered_gradients(x: jax.Array, kernel: jax.Array, dy: jax.Array, num_points: int) -> tuple[jax.Array, jax.Array]:
    """Compute the derivatives of `filtered` in the transformed domain.

    Args:
      x: [C, H, W, B] activations.
      kernel: [k, k, C, O].
      dy: [O, H, W, B], the cotangent of the result.
      num_points: P, 6 or 8.

    Returns:
      (dx [C, H, W, B], d_kernel [k, k, C, O]).
    """
    t, (taps, _, channels, features) = transforms(kernel.shape[0], num_points), kernel.shape
    width = x.shape[2]
    m, count = tiles(width, taps, num_points)
    # The transposes of the three linear maps of `filtered`, last one first. The transformed inputs are made again.
    dy = jnp.pad(dy, [(0, 0), (0, 0), (0, count * m - width), (0, 0)])
    outputs = [dy[:, :, q::m] for q in range(m)]
    d_products = jnp.stack([combine(column, outputs) for column in t.outer.T]).reshape(num_points, features, -1)
    d_transformed = jnp.einsum("pon,pkn->pok", d_products, _rows_of_inputs(x, taps, num_points))
    d_kernel = jnp.einsum("pj,poac->ajco", t.kernel, d_transformed.reshape(num_points, features, taps, channels))
    d_rows = jnp.einsum("pok,pon->pkn", _transformed_kernel(kernel, num_points), d_products)
    return _inputs_from_rows(d_rows, x.shape, taps, num_points), d_kernel


def _rows_of_inputs(x: jax.Array, taps: int, num_points: int) -> jax.Array:
    """Return the transformed inputs for each row of the kernel: [C, H, W, B] -> [P, k * C, H * tiles * B]."""
    t, before = transforms(taps, num_points), (taps - 1) // 2
    height, width = x.shape[1:3]
    m, count = tiles(width, taps, num_points)
    after = count * m + taps - 1 - before - width
    padded = jnp.pad(x, [(0, 0), (before, taps // 2), (before, after), (0, 0)])
    # Tiles of P inputs start m pixels apart, so input i of all tiles is one slice with the step m.
    inputs = [padded[:, :, i : i + m * (count - 1) + 1 : m] for i in range(num_points)]
    values = jnp.stack([combine(row, inputs) for row in t.inner])
    rows = jnp.concatenate([values[:, :, a : a + height] for a in range(taps)], axis=1)
    return rows.reshape(num_points, rows.shape[1], -1)


def _transformed_kernel(kernel: jax.Array, num_points: int) -> jax.Array:
    """Transform the kernel: [k, k, C, O] -> [P, O, k * C]."""
    t = transforms(kernel.shape[0], num_points)
    return jnp.einsum("pj,ajco->poac", t.kernel, kernel).reshape(num_points, kernel.shape[3], -1)


def _inputs_from_rows(d_rows: jax.Array, shape: tuple[int, ...], taps: int, num_points: int) -> jax.Array:
    """Apply the transpose of `_rows_of_inputs`: [P, k * C, H * tiles * B] -> ``shape`` [C, H, W, B]."""
    t, before = transforms(taps, num_points), (taps - 1) // 2
    channels, height, width, samples = shape
    m, count = tiles(width, taps, num_points)
    d_rows = d_rows.reshape(num_points, taps, channels, height, count, samples)
    # Row a of the kernel was multiplied with input rows that are a - before rows further down.
    values = total([moved(d_rows[:, a], a - before, axis=2) for a in range(taps)])
    inputs = [combine(column, list(values)) for column in t.inner.T]
    return overlapped(inputs, m, 2)[:, :, before : before + width]


def filtered_2d(x: jax.Array, kernel: jax.Array, num_points: int) -> jax.Array:
    """Convolution of stride one that keeps height and width, by minimal filtering in both directions.

    Args:
      x: [C, H, W, B] activations, samples last.
      kernel: [k, k, C, O], k odd and less than ``num_points``.
      num_points: P, 6 or 8.

    Returns:
      [O, H, W, B].
    """
    taps = kernel.shape[0]
    outer, (height, width, samples) = transforms(taps, num_points).outer, x.shape[1:]
    (m, down), (_, across) = (tiles(size, taps, num_points) for size in (height, width))
    products = _kernels(kernel, num_points) @ _inputs(x, taps, num_points)
    products = products.reshape(num_points, num_points, -1, down, across, samples)
    rows = _all(outer, list(products), 0)  # [m, P, O, down, across, B]
    outputs = _all(outer, [rows[:, q] for q in range(num_points)], 1)  # [m, m, O, down, across, B]
    outputs = jnp.transpose(outputs, (2, 3, 0, 4, 1, 5)).reshape(-1, down * m, across * m, samples)
    return outputs[:, :height, :width]


def filtered_2d_gradients(
    x: jax.Array, kernel: jax.Array, dy: jax.Array, num_points: int
) -> tuple[jax.Array, jax.Array]:
    """Compute the derivatives of `filtered_2d` in the transformed domain.

    Args:
      x: [C, H, W, B] activations.
      kernel: [k, k, C, O].
      dy: [O, H, W, B], the cotangent of the result.
      num_points: P, 6 or 8.

    Returns:
      (dx [C, H, W, B], d_kernel [k, k, C, O]).
    """
    taps, _, channels, features = kernel.shape
    t, before, (height, width, samples) = transforms(taps, num_points), (taps - 1) // 2, x.shape[1:]
    (m, down), (_, across) = (tiles(size, taps, num_points) for size in (height, width))
    dy = jnp.pad(dy, [(0, 0), (0, down * m - height), (0, across * m - width), (0, 0)])
    rows = _all(t.outer.T, _apart(dy, 1, m, down, m), 0)
    d_products = _all(t.outer.T, _apart(rows, 3, m, across, m), 1).reshape(num_points**2, features, -1)
    d_kernels = jnp.einsum("pon,pcn->poc", d_products, _inputs(x, taps, num_points))
    d_kernels = d_kernels.reshape(num_points, num_points, features, channels)
    d_kernel = jnp.einsum("pi,qj,pqoc->ijco", t.kernel, t.kernel, d_kernels)
    d_inputs = jnp.einsum("poc,pon->pcn", _kernels(kernel, num_points), d_products)
    d_inputs = d_inputs.reshape(num_points, num_points, channels, down, across, samples)
    columns = [combine(column, [d_inputs[:, q] for q in range(num_points)]) for column in t.inner.T]
    d_rows = overlapped(columns, m, 3)[:, :, :, before : before + width]  # [P, C, down, W, B]
    d_columns = [combine(column, list(d_rows)) for column in t.inner.T]
    return overlapped(d_columns, m, 1)[:, before : before + height], d_kernel


def _apart(x: jax.Array, axis: int, step: int, count: int, starts: int) -> list[jax.Array]:
    """Slice an axis ``starts`` times: slice i has ``count`` elements, ``step`` apart, and begins at index i."""
    end = step * (count - 1) + 1
    return [jax.lax.slice_in_dim(x, start, start + end, step, axis) for start in range(starts)]


def _all(matrix: np.ndarray, parts: Sequence[jax.Array], axis: int) -> jax.Array:
    """Combine the parts linearly, once for each row of the matrix, and stack the results along a new axis."""
    return jnp.stack([combine(row, parts) for row in matrix], axis=axis)


def _inputs(x: jax.Array, taps: int, num_points: int) -> jax.Array:
    """Return the transformed tiles of the inputs: [C, H, W, B] -> [P^2, C, tiles * B]."""
    t, before = transforms(taps, num_points).inner, (taps - 1) // 2
    (m, down), (_, across) = (tiles(size, taps, num_points) for size in x.shape[1:3])
    after = [count * m + taps - 1 - before - size for count, size in zip((down, across), x.shape[1:3])]
    padded = jnp.pad(x, [(0, 0), (before, after[0]), (before, after[1]), (0, 0)])
    rows = _all(t, _apart(padded, 1, m, down, num_points), 0)  # [P, C, down, W', B]
    values = _all(t, _apart(rows, 3, m, across, num_points), 1)  # [P, P, C, down, across, B]
    return values.reshape(num_points**2, x.shape[0], -1)


def _kernels(kernel: jax.Array, num_points: int) -> jax.Array:
    """Transform the kernel: [k, k, C, O] -> [P^2, O, C]."""
    t = transforms(kernel.shape[0], num_points).kernel
    return jnp.einsum("pi,qj,ijco->pqoc", t, t, kernel).reshape(num_points**2, *kernel.shape[:1:-1])


FORMS.register("patches", doc="Patches times a matrix.")(ConvForm(_keeps_x(_of_patches), _of_patches_gradients))
FORMS.register("filtering", doc="Minimal filtering.")(
    ConvForm(_keeps_x(_filtered), _filtered_gradients, of_stride_one=True)
)
FORMS.register("library", doc="The library's.")(ConvForm(_keeps_x(_library), _library_gradients))
# The library's for a model by itself, and patches for models that are mapped together.
_BY_MODELS = ConvForm(
    _keeps_x(_by_models(_library, _of_patches)), _by_models(_library_gradients, _of_patches_gradients)
)


def default_form(
    kernel_shape: tuple[int, ...], dtype: jnp.dtype, stride: int = 1, extent: Sequence[int] = (0, 0, 0)
) -> str:
    """Return the fastest form of a convolution on the target, by the measurements in benchmarks/tried.md.

    On a CPU, for stride one, sizes 3 to 7 and float32, it is a form that says that it pays there (`Form.pays`). If none
    does, the form is minimal filtering for sizes 3 to 5 and several input channels. All else has patches. Minimal
    filtering increases rounding errors (along the width about ten times), for which bfloat16 is not precise enough.

    On a TPU, the form is the library's. On a GPU, it is the library's for a model by itself. Models that are mapped
    together have patches, hence one batched product: the library would start a kernel for each of them.

    Args:
      kernel_shape: (size, size, C, O).
      dtype: the type of the activations.
      stride: the stride of the convolution.
      extent: H, W, B of the activations.
    """
    size, _, channels, _ = kernel_shape
    if backend() != "cpu":
        return "library" if backend() == "tpu" else OF_A_GPU
    if dtype != jnp.float32 or stride > 1 or not 3 <= size <= 7:
        return "patches"
    for name in FORMS:
        if (pays := FORMS[name].pays) and pays(kernel_shape, extent):
            return name
    return "filtering" if size <= 5 and channels > 1 else "patches"


def not_possible(form: str, what: str) -> UserError:
    """Return the error about a form that some layers or images cannot have."""
    return UserError(f"engine.convolution is {form}, which is not possible with {what}; auto takes the fastest form")


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
      form: one of `FORMS`; empty: `default_form`. Forms of stride one are replaced by patches for other strides and
        size 1.
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
        form, stride = self.form or default_form(shape, x.dtype, self.stride, x.shape[1:]), self.stride
        if (self.size == 1 or stride > 1) and form in FORMS and FORMS[form].of_stride_one:
            form = "patches"
        if self.size == 1:  # a product with every stride-th pixel
            x, stride = x[:, ::stride, ::stride], 1
        y = convolution(x, kernel, form, stride)
        y = max_pool(y) if self.pool else y
        if not self.use_bias:
            return y
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,))
        return y + bias[:, None, None, None]
