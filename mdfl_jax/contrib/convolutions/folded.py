"""Batch normalisation folded into the 1x1 convolution before it, whose result is then never written.

A bottleneck ends with relu(norm(W' a) + x), where W [C, O] is a 1x1 convolution and O is four times C. The mean and the
covariance of the narrow a determine those of the wide W' a:

    mean(W' a) = W' mean(a),    var(W' a) = diag(W' cov(a) W).

So, with f = scale / sqrt(var + epsilon), the whole end is relu((W f)' a + shift + x): one convolution with its
epilogue. Where the shortcut has a convolution and a normalisation too, both are one convolution of [a, b]. It is the
default on a TPU, where the memory sets the pace of such a block.

The gradient keeps a and the result. Let d be the gradient of the sum before the ReLU. The gradient of x is d. All other
gradients follow from d, its sums, its products with a, and the moments of a: that of a is one convolution of [d, a].

The covariance is the mean of products less the product of means, in float32. It loses digits where the means of the
inputs are many times their standard deviations, which the inputs, results of a ReLU, are not.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.core.devices import backend
from mdfl_jax.models.conv import BOTTLENECKS, TOGETHER, Together
from mdfl_jax.models.norm import BatchNorm, pixels
from mdfl_jax.models.zoo.resnet import HE, Block, Layer

_EXACT = jax.lax.Precision.HIGHEST
PIXELS = (1, 2, 3)  # the axes of [C, H, W, B] that are summed


class _Moments(NamedTuple):
    """Moments of the inputs of a `Product`, over all pixels of a batch. No gradient passes through them.

    Attributes:
      number: [] the number of pixels.
      mean: [C] the mean of the inputs.
      spread: [C, O] the covariance of the inputs times the kernel.
    """

    number: jax.Array
    mean: jax.Array
    spread: jax.Array


class Product(NamedTuple):
    """A 1x1 convolution that is not computed.

    Attributes:
      inputs: [C, H, W, B], zero for samples that are not there.
      kernel: [C, O].
    """

    inputs: jax.Array
    kernel: jax.Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape [O, H, W, B] of its result."""
        return (self.kernel.shape[1], *self.inputs.shape[1:])

    def moments(self, number: jax.Array) -> _Moments:
        """Return the moments of the inputs over ``number`` pixels, at least one, of samples that are there."""
        inputs, kernel = map(jax.lax.stop_gradient, self)
        mean = _sums(inputs) / number
        covariance = _products(inputs, inputs) / number - mean[:, None] * mean
        return _Moments(number, mean, jnp.dot(covariance, kernel.astype(jnp.float32), precision=_EXACT))

    def result(self, moments: _Moments) -> tuple[jax.Array, jax.Array]:
        """Return the mean and the variance of the result, [O] each, from the moments of the inputs."""
        kernel = jax.lax.stop_gradient(self.kernel).astype(jnp.float32)
        mean = jnp.dot(moments.mean, kernel, precision=_EXACT)
        return mean, jnp.maximum(jnp.sum(kernel * moments.spread, axis=0), 0.0)


class Normalised(NamedTuple):
    """A `Product` with the batch normalisation of its result, which is not computed either.

    Attributes:
      product: the product.
      scale: [O] the factor of the normalised result.
      bias: [O] what is added to it.
      moments: the moments of the product's inputs.
      rate: [O] one over the standard deviation of the product's result. No gradient passes through it.
    """

    product: Product
    scale: jax.Array
    bias: jax.Array
    moments: _Moments
    rate: jax.Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape [O, H, W, B]."""
        return self.product.shape


@jax.custom_vjp
def relu_of_sum(terms: tuple[Normalised | jax.Array, ...], mask: jax.Array) -> jax.Array:
    """Return the ReLU of a sum of normalised products and of other arrays.

    Args:
      terms: [O, H, W, B] each, one or more of them a `Normalised`.
      mask: [B] bool, False for samples that are not there.

    Returns:
      [O, H, W, B], zero for samples that are not there.
    """
    parts = [term for term in terms if isinstance(term, Normalised)]
    inputs = _joined([part.product.inputs for part in parts])
    kernels = [(part.product.kernel * (part.rate * part.scale)).astype(inputs.dtype) for part in parts]
    total = _applied(_joined(kernels), inputs)
    for part, kernel in zip(parts, kernels):  # the mean under the rounded kernel, so that the result's mean is exact
        mean = jnp.dot(part.moments.mean, kernel.astype(jnp.float32), precision=_EXACT)
        total += _column(part.bias - mean)
    for term in terms:
        total = total if isinstance(term, Normalised) else total + term.astype(jnp.float32)
    # A maximum and not a choice by ``total > 0``: a TPU's compiler packs such choices into bits, writes the sum in
    # float32 and reads it twice. A choice would also turn NaN into zero.
    return jnp.where(mask, jnp.maximum(total, 0.0), 0.0).astype(inputs.dtype)


def _forward(terms: tuple[Normalised | jax.Array, ...], mask: jax.Array) -> tuple[jax.Array, tuple]:
    out = relu_of_sum(terms, mask)
    return out, ([term if isinstance(term, Normalised) else None for term in terms], mask, out)


def _backward(saved: tuple, gradient: jax.Array) -> tuple:
    parts, mask, out = saved
    # A barrier makes the compiler write d once. Without it, each product that reads d would compute it again.
    d = jax.lax.optimization_barrier(jnp.where(out > 0, gradient, jnp.zeros_like(gradient)))
    sums = _sums(d)
    return tuple(_of_part(part, d, sums, mask) if part else d for part in parts), None


def _of_part(part: Normalised, d: jax.Array, sums: jax.Array, mask: jax.Array) -> Normalised:
    """Return the gradients of a part's inputs, kernel, scale and bias.

    Args:
      part: the part.
      d: [O, H, W, B] the gradient of its normalised result.
      sums: [O] the sums of d.
      mask: [B] as in `relu_of_sum`.
    """
    (inputs, kernel), (number, mean, spread) = part.product, part.moments
    wide, factor = kernel.astype(jnp.float32), part.rate * part.scale
    products = _products(inputs, d) - mean[:, None] * sums  # of the inputs less their means
    d_scale = part.rate * jnp.sum(wide * products, axis=0)
    # d goes back less its mean and less its part along the result: factor * d + along * (result - mean) - const.
    along = -factor * part.rate * d_scale / number
    d_kernel = factor * products + along * number * spread
    of_inputs = jnp.dot(wide * along, wide.T, precision=_EXACT)  # [C, C]
    const = jnp.dot(wide, factor * sums / number, precision=_EXACT) + jnp.dot(of_inputs, mean, precision=_EXACT)
    back = _joined([(wide * factor).T, of_inputs]).astype(inputs.dtype)
    d_inputs = jnp.where(mask, _applied(back, _joined([d, inputs])) - _column(const), 0.0)
    product = Product(d_inputs.astype(inputs.dtype), d_kernel.astype(kernel.dtype))
    return Normalised(product, d_scale.astype(part.scale.dtype), sums.astype(part.bias.dtype), None, None)  # type: ignore[arg-type]


relu_of_sum.defvjp(_forward, _backward)


def _column(of_channels: jax.Array) -> jax.Array:
    return of_channels[:, None, None, None]


def _joined(arrays: list[jax.Array]) -> jax.Array:
    return arrays[0] if len(arrays) == 1 else jnp.concatenate(arrays)


def _applied(kernel: jax.Array, inputs: jax.Array) -> jax.Array:
    """Apply a 1x1 convolution [C, O] to [C, H, W, B] -> [O, H, W, B] float32."""
    return jax.lax.conv_general_dilated(
        inputs,
        kernel[None, None],
        (1, 1),
        "VALID",
        dimension_numbers=("CHWN", "HWIO", "CHWN"),
        preferred_element_type=jnp.float32,
    )


def _products(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the sums over all pixels of x y': [C, H, W, B] and [O, H, W, B] -> [C, O] float32."""
    return jax.lax.dot_general(x, y, ((PIXELS, PIXELS), ((), ())), preferred_element_type=jnp.float32)


def _sums(x: jax.Array) -> jax.Array:
    """Return the sums over all pixels, [C, H, W, B] -> [C] float32: a product with ones, which a TPU adds up faster."""
    return jax.lax.dot_general(
        jnp.ones(x.shape[1:], x.dtype), x, (((0, 1, 2), PIXELS), ((), ())), preferred_element_type=jnp.float32
    )


class Kernel(nn.Module):
    """The kernel of a 1x1 convolution, whose result is not computed.

    Attributes:
      features: the number of output channels.
      stride: the distance of two output pixels in input pixels.
    """

    features: int
    stride: int

    @nn.compact
    def __call__(self, x: jax.Array) -> Product:
        """Return the convolution of ``x`` [C, H, W, B]."""
        kernel = self.param("kernel", HE, (1, 1, x.shape[0], self.features))
        return Product(x[:, :: self.stride, :: self.stride], kernel[0, 0])


class OfProduct(BatchNorm):
    """Batch normalisation of a `Product` in training."""

    def of_batch(self, x: Any, mask: jax.Array, scale: jax.Array, bias: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        """Return the product with its normalisation, and the mean and variance of its result."""
        count = pixels(x.shape, mask)
        moments = x.moments(jnp.maximum(count, 1.0))
        mean, variance = x.result(moments)
        rate = jax.lax.rsqrt(jnp.where(count > 0, variance, 1.0) + self.epsilon)
        return Normalised(x, scale, bias, moments, rate), mean, variance


class Norm(nn.Module):
    """The normalisation of a layer, with the variables of `mdfl_jax.models.norm.Norm`."""

    @nn.compact
    def __call__(self, x: Product, mask: jax.Array) -> Normalised:
        """Return ``x`` with its normalisation."""
        result: Normalised = OfProduct(name="batch")(x, mask)
        return result


class FoldedLayer(Layer):
    """A 1x1 convolution and its batch normalisation, which are not computed."""

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array | None) -> Any:
        """Return the layer of ``x`` [C, H, W, B] as a `Normalised`."""
        assert mask is not None
        return Norm(name="norm")(Kernel(self.features, self.stride, name="conv")(x), mask)


class FoldedBlock(Block):
    """A bottleneck whose normalisations before the sum are folded in training."""

    def end(self, mask: jax.Array | None) -> tuple[Any, Callable[[Any, Any], jax.Array]]:
        """Return the layers before the sum, and `relu_of_sum`; in evaluation those of a plain block."""
        return super().end(mask) if mask is None else (FoldedLayer, lambda y, x: relu_of_sum((y, x), mask))


TOGETHER.register("folded", doc="Batch normalisation within the 1x1 convolution before it.")(
    Together(BOTTLENECKS, FoldedBlock, pays=lambda: backend() == "tpu")
)
