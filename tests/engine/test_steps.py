"""Traced steps without what they do not need."""

import re

import jax
import jax.numpy as jnp
import numpy as np
from small import toy_simulation

from mdfl_jax.engine.programs import Placement, TracedStep

PLACEMENT = Placement(toy_simulation(), 4, 1, jax.devices()[:2])


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
