"""A traced function without what it does not need: which inputs it takes, what passes by it, what is donated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import toy_simulation

from mdfl_jax.engine.compile import TracedStep
from mdfl_jax.engine.placement import Placement

PLACEMENT = Placement(toy_simulation(), 4, 1, jax.devices()[:2])


def f(x, both, key):
    """Reads x and the first of both, and returns the second as it is."""
    moved = jax.lax.scan(lambda c, _: ({"a": c["a"] + x, "b": c["b"]}, None), both, None, length=3)[0]
    return moved, {"sum": jnp.sum(x), "one": jnp.float32(1)}


def arguments():
    both = {"a": np.ones((2, 3), np.float32), "b": np.zeros((2, 1), np.float32)}
    keys = jax.vmap(jax.random.key)(np.arange(2, dtype=np.uint32))
    return jax.device_put((np.arange(6, dtype=np.float32).reshape(2, 3), both, keys), PLACEMENT.by_device)


def traced(passes=(), donated=None, args=None):
    return TracedStep(PLACEMENT, "f", f, args or arguments(), passes, donated)


def test_it_reads_what_it_computes_with():
    assert traced((1,)).used == [0, 1]  # not b, which passes by the program, and not the key
    assert traced().used == [0, 1, 2]


@pytest.mark.parametrize("passes", [(), (1,)])
def test_it_computes_the_function_on_each_device(passes):
    made, args = traced(passes), arguments()
    found = made.call(made.lower().compile(), *args)
    expected = jax.vmap(f)(*args)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), expected)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), made.shapes) == shapes
    assert (found[0]["b"] is args[1]["b"]) == bool(passes)


def test_what_passes_by_is_not_donated():
    made, (x, both, key) = traced((1,), donated=1), arguments()
    made.call(made.lower().compile(), x, both, key)
    assert both["a"].is_deleted()
    assert not both["b"].is_deleted()
    assert not x.is_deleted()


def test_functions_that_differ_in_what_they_do_not_read_are_one_program():
    other = jax.device_put(np.zeros((2, 7), np.float32), PLACEMENT.by_device)
    wide = (*arguments()[:2], {"other": other, "key": arguments()[2]})
    texts = [traced((1,), args=args).lower().as_text() for args in (arguments(), wide)]
    assert texts[0] == texts[1]
