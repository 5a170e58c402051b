"""The arrays of a traced program: their shapes, also inside of loops, branches and calls."""

import math

import jax


def shapes_in(jaxpr):
    """The shapes of all arrays that a jaxpr and the jaxprs inside it compute or hold.

    >>> sorted(shapes_in(jax.make_jaxpr(lambda x: jax.lax.map(lambda y: y[:2] + 1, x))(jax.numpy.zeros((4, 3))).jaxpr))
    [(2,), (2,), (3,), (4, 2), (4, 3)]
    """
    found = [v.aval.shape for v in (*jaxpr.invars, *jaxpr.constvars) if hasattr(v.aval, "shape")]
    for equation in jaxpr.eqns:
        found += [v.aval.shape for v in equation.outvars if hasattr(v.aval, "shape")]
        inner = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns"))
        for value in inner:
            if hasattr(value, "eqns"):
                found += shapes_in(getattr(value, "jaxpr", value))
    return found


def largest(function, *args):
    """The number of entries of the largest array of a program, and its shape. Nothing is compiled or run."""
    shapes = shapes_in(jax.make_jaxpr(function)(*args).jaxpr)
    return max((math.prod(shape), shape) for shape in shapes)
