"""Counts the FLOPs of a traced program.

The count is made on the jaxpr, because a compiler's own count includes the body of a loop only once. A convolution has
the same count as a library call and as a product with patches; minimal filtering needs fewer multiplications, and
oneDNN's calls are not counted.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from mdfl_jax.core.sharding import CLIENT
from mdfl_jax.core.traced import live, sub_programs


class Products(NamedTuple):
    """The size of all matrix products and convolutions of a program.

    Attributes:
      flops: their FLOPs; one multiplication and its addition count as two.
      outputs: the number of elements of their results.
    """

    flops: float
    outputs: float


def count_flops(jaxpr: Jaxpr | ClosedJaxpr) -> float:
    """Return the FLOPs of the matrix products and convolutions of a traced program.

    One multiplication and its addition count as two FLOPs. The body of a ``scan`` counts once for each iteration, and a
    ``cond`` counts as its most expensive branch. The body of a ``while`` counts as often as the largest whole number
    with which its condition compares, and once without one. Operations that no output depends on do not count.
    """
    return products(jaxpr).flops


def products(jaxpr: Jaxpr | ClosedJaxpr) -> Products:
    """Return the FLOPs and result sizes of all matrix products and convolutions, by the rules of `count_flops`."""
    return _count(jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr)


def _count(jaxpr: Jaxpr) -> Products:
    jaxpr = live(jaxpr)[0]
    flops = outputs = 0.0
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name in ("dot_general", "conv_general_dilated"):
            avals: list[Any] = [v.aval for v in (*equation.invars[:2], equation.outvars[0])]
            of_one: Any = _of_product if name == "dot_general" else _of_convolution
            flops += of_one(*(aval.shape for aval in avals), params)
            outputs += avals[2].size
            continue
        inside = [_count(sub) for sub in sub_programs(params)]
        if inside:
            parts = [max(inside)] if name == "cond" else inside
            devices = params["mesh"].shape[CLIENT] if name == "shard_map" else 1  # the inner program is for one device
            times = devices * (params["length"] if name == "scan" else _most(params) if name == "while" else 1)
            flops += times * sum(part.flops for part in parts)
            outputs += times * sum(part.outputs for part in parts)
    return Products(flops, outputs)


def _most(params: Any) -> int:
    """Return a bound on the iterations of a ``while``, from the numbers in its condition."""
    compared = [equation.invars[1] for equation in params["cond_jaxpr"].eqns if equation.primitive.name == "lt"]
    bounds = [
        int(bound.val) for bound in compared if isinstance(bound, Literal) and np.asarray(bound.val).dtype == np.int32
    ]
    return max(bounds, default=1)


def _of_product(left: tuple[int, ...], _: tuple[int, ...], out: tuple[int, ...], params: Any) -> float:
    contracted = params["dimension_numbers"][0][0]
    return 2.0 * math.prod(out) * math.prod(left[axis] for axis in contracted)


def _of_convolution(image: tuple[int, ...], kernel: tuple[int, ...], out: tuple[int, ...], params: Any) -> float:
    """Return the FLOPs of a convolution: one multiplication for each tap of the kernel and each pixel of the output.

    Where the image is dilated, as in the gradient of a strided convolution, the pixels of the image count instead of
    those of the output, because the zeros between them need no arithmetic. Groups of features or of the batch need no
    special treatment, because the shape of the kernel already reflects them.
    """
    numbers = params["dimension_numbers"]
    taps = math.prod(kernel) / kernel[numbers.rhs_spec[0]]
    pixels = math.prod(out)
    for axis, dilation in enumerate(params["lhs_dilation"]):
        if dilation > 1:
            pixels = pixels // out[numbers.out_spec[2 + axis]] * image[numbers.lhs_spec[2 + axis]]
    return 2.0 * pixels * taps
