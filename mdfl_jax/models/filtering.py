"""Convolution by minimal filtering along the width: fewer multiplications, and smaller patches.

A filter with k taps takes m * k multiplications for m outputs. Computed from the values of polynomials at m + k - 1
points, it takes only m + k - 1 multiplications (Cook and Toom; Winograd; for layers of networks: Lavin and Gray, CVPR
2016). Here only the width is transformed, and the height keeps its k shifted rows. A convolution therefore becomes
m + k - 1 products of matrices with k * C columns. With the points 0, +-1, +-2, +-1/2 and infinity, the results agree
with the direct form to about 1e-6.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

POINTS = (0, 1, -1, 2, -2, Fraction(1, 2), Fraction(-1, 2))  # the first five or all of them, with infinity


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


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """Invert a matrix by Gauss-Jordan elimination in exact arithmetic."""
    n = len(matrix)
    rows = [[*row, *(Fraction(i == j) for j in range(n))] for i, row in enumerate(matrix)]
    for c in range(n):
        pivot = next(r for r in range(c, n) if rows[r][c] != 0)
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [value / rows[c][c] for value in rows[c]]
        for r in range(n):
            if r != c:
                rows[r] = [a - rows[r][c] * b for a, b in zip(rows[r], rows[c])]
    return [row[n:] for row in rows]


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
    points = [Fraction(p) for p in POINTS[: num_points - 1]]

    def powers(width: int) -> list[list[Fraction]]:
        return [[p**j for j in range(width)] for p in points] + [[Fraction(0)] * (width - 1) + [Fraction(1)]]

    kernel, outer = powers(taps), powers(num_points + 1 - taps)
    inner = [list(column) for column in zip(*_inverse(powers(num_points)))]
    for i, row in enumerate(inner):  # a factor may move between the two; it keeps the inputs' coefficients moderate
        sizes = [abs(value) for value in row if value != 0]
        scale = min(sizes) if num_points == 6 else max(sizes)
        inner[i] = [value / scale for value in row]
        kernel[i] = [value * scale for value in kernel[i]]
    as_array = lambda rows: np.array([[float(v) for v in row] for row in rows], np.float32)  # noqa: E731
    return Transforms(as_array(inner), as_array(kernel), as_array(outer).T)


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


def _rows_of_inputs(x: jax.Array, taps: int, num_points: int) -> jax.Array:
    """Return the transformed inputs for each row of the kernel: [C, H, W, B] -> [P, k * C, H * tiles * B]."""
    t, before = transforms(taps, num_points), (taps - 1) // 2
    height, width = x.shape[1:3]
    m, count = tiles(width, taps, num_points)
    after = count * m + taps - 1 - before - width
    padded = jnp.pad(x, [(0, 0), (before, taps // 2), (before, after), (0, 0)])
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
    dy = jnp.pad(dy, [(0, 0), (0, 0), (0, count * m - width), (0, 0)])
    outputs = [dy[:, :, q::m] for q in range(m)]
    d_products = jnp.stack([combine(column, outputs) for column in t.outer.T]).reshape(num_points, features, -1)
    d_transformed = jnp.einsum("pon,pkn->pok", d_products, _rows_of_inputs(x, taps, num_points))
    d_kernel = jnp.einsum("pj,poac->ajco", t.kernel, d_transformed.reshape(num_points, features, taps, channels))
    d_rows = jnp.einsum("pok,pon->pkn", _transformed_kernel(kernel, num_points), d_products)
    return _inputs_from_rows(d_rows, x.shape, taps, num_points), d_kernel
