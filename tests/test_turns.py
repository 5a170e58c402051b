"""The runs of each device in turns: they are put together as they were divided, and no copy is left on the way."""

import jax
import numpy as np
import pytest

from mdfl_jax.engine.steps import Steps
from mdfl_jax.engine.turns import turns_of


@pytest.mark.parametrize("num_devices", [1, 3])
@pytest.mark.parametrize(("per_device", "at_once", "axes"), [(4, 1, 1), (4, 2, 2), (2, 2, 2), (1, 1, 2)])
def test_turns_are_put_together_as_they_were_divided(num_devices, per_device, at_once, axes):
    turns = turns_of(Steps(*[lambda *args: args] * 5), jax.devices()[:num_devices], per_device, at_once)
    shape = (num_devices, per_device, 2, 3)
    tree = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "none": np.zeros((*shape[:2], 0, 2), bool)}
    parts = turns.split(tree)
    assert len(parts) == per_device // at_once
    assert all(part["x"].ndim == axes + 2 for part in parts)
    found = turns.join(parts)
    for name, leaf in tree.items():
        assert found[name].dtype == leaf.dtype
        np.testing.assert_array_equal(found[name], leaf)


def test_states_that_were_read_keep_no_copy_of_what_was_read():
    """Or each saved state of a study on several devices would take the memory of its state once more."""
    turns = turns_of(Steps(*[lambda *args: args] * 5), jax.devices()[:2], 2, 1)
    parts = turns.split({"x": np.ones((2, 2, 5), np.float32)})
    turns.join(parts)
    assert [part["x"]._npy_value for part in parts] == [None, None]
    np.asarray(parts[0]["x"])
    assert parts[0]["x"]._npy_value is not None  # what this test would see
