"""Traced steps: what they depend on, and what is no input of them."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import toy_simulation

from mdfl_jax.engine.programs import Placement, TracedStep, traced_steps
from mdfl_jax.study import make_study

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


@pytest.mark.long
def test_programs_depend_neither_on_traced_numbers_nor_on_the_number_of_runs(tiny):
    """So a study of as many runs as devices, or more, grows to the bit."""

    def texts(seeds, **changes):
        (group,) = make_study(tiny(seeds=seeds, sweep="", **{"engine.client_devices": 1}, **changes)).groups
        placement = Placement(group.simulation, seeds)
        turn = placement.inputs(group.hparams * seeds, range(seeds))[0]
        return [(step.name, step.lower().as_text()) for step in traced_steps(placement, turn, turn)]

    other = {"algorithm.lr": 0.3, "network.radius": 1.5, "network.num_mobile": 1, "first_seed": 5}
    found = texts(16)  # two on each of the eight devices
    assert {name for name, _ in found} == {"draw", "world", "begin", "rounds", "evaluate"}
    assert found == texts(24, **other) == texts(8, **other)
