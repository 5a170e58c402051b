"""Parts of a run: traced steps without what they do not need, the turns of a device, what a network observes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import toy_simulation

from mdfl_jax.engine.programs import Placement, TracedStep

PLACEMENT = Placement(toy_simulation(), 4, 1, jax.devices()[:2])


def f(x, both, key):
    """Reads x and the first of both, and returns the second as it is."""
    moved = jax.lax.scan(lambda c, _: ({"a": c["a"] + x, "b": c["b"]}, None), both, None, length=3)[0]
    return moved, {"sum": jnp.sum(x), "one": jnp.float32(1)}


def arguments():
    both = {"a": np.ones((2, 3), np.float32), "b": np.zeros((2, 1), np.float32)}
    keys = jax.vmap(jax.random.key)(np.arange(2, dtype=np.uint32))
    return jax.device_put((np.arange(6, dtype=np.float32).reshape(2, 3), both, keys), PLACEMENT.by_device)


def traced(passes=(), donated=None):
    return TracedStep(PLACEMENT, "f", f, arguments(), passes, donated)


@pytest.mark.parametrize("passes", [(), (1,)])
def test_it_computes_the_function_on_each_device(passes):
    made, args = traced(passes), arguments()
    found = made.call(made.lower().compile(), *args)
    expected = jax.vmap(f)(*args)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), expected)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), made.shapes) == shapes
    assert (found[0]["b"] is args[1]["b"]) == bool(passes)


def test_arrays_without_elements_are_no_inputs_of_a_device():
    """XLA ends the process on such an argument, or a constant, as `.at[:]` makes one (jaxlib 0.11.2)."""

    def f(x, empty):
        last = jax.lax.fori_loop(0, 3, lambda i, row: row.at[:].set(i * x), x)
        return {"last": last, "sum": x + jnp.sum(empty), "empty": empty + 1}

    args = jax.device_put((np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3, 0))), PLACEMENT.by_device)
    made = TracedStep(PLACEMENT, "f", f, args)
    assert [0 in x.shape for x in (*made.jaxpr.in_avals, *made.jaxpr.consts)] == [False, True, True]
    lowered = made.lower()
    assert not re.search(r"manual_computation.*[<x]0x", lowered.as_text())
    jax.tree.map(np.testing.assert_array_equal, made.call(lowered.compile(), *args), jax.vmap(f)(*args))


def test_what_passes_by_is_not_donated():
    made, (x, both, key) = traced((1,), donated=1), arguments()
    made.call(made.lower().compile(), x, both, key)
    assert both["a"].is_deleted()
    assert not both["b"].is_deleted()
    assert not x.is_deleted()


@pytest.mark.parametrize("num_devices", [1, 3])
@pytest.mark.parametrize(("per_device", "at_once", "axes"), [(4, 1, 1), (4, 2, 2), (2, 2, 2), (1, 1, 1), (1, 2, 2)])
def test_turns_are_put_together_as_they_were_divided(num_devices, per_device, at_once, axes):
    num_runs = num_devices * per_device
    placement = Placement(toy_simulation(), num_runs, at_once, jax.devices()[:num_devices])
    shape = (num_runs, 2, 3)
    tree = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "none": np.zeros((num_runs, 0, 2), bool)}
    parts = placement.split(tree)
    assert len(parts) == max(per_device // at_once, 1)
    assert all(part["x"].ndim == axes + 2 for part in parts)
    found = placement.join(parts, num_runs)
    for name, leaf in tree.items():
        assert found[name].dtype == leaf.dtype
        np.testing.assert_array_equal(found[name], leaf)
