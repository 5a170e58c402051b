"""Convolution by minimal filtering in both directions: F(m x m, k x k) of Lavin and Gray (CVPR 2016).

Tiles of P x P inputs, P = m + k - 1, become P^2 products of matrices with C columns. For 3x3 kernels and six points,
this takes a quarter of the multiplications of the direct form, and half of the multiplications and copies of filtering
along the width alone (`mdfl_jax.models.filtering`). Its rounding errors are larger: the results agree with the direct
form to about 1e-5. It is faster where the products are long; see `pays`.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.models.filtering import combine, overlapped, tiles, transforms

LONG, SAMPLES = 512, 32  # the smallest number of columns of a product, and the smallest number of samples
CHANNELS = (16, 64)  # the smallest and the largest number of channels; measured in benchmarks/README.md


def pays(x: jax.Array | jax.ShapeDtypeStruct, kernel_shape: tuple[int, ...], num_points: int) -> bool:
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
