"""The runs of each device in turns: they are put together as they were divided, and no copy is left on the way."""

import jax
import numpy as np
import pytest
from small import toy_simulation

from mdfl_jax.engine.placement import Placement


@pytest.mark.parametrize("num_devices", [1, 3])
@pytest.mark.parametrize(("per_device", "at_once", "axes"), [(4, 1, 1), (4, 2, 2), (2, 2, 2), (1, 1, 2)])
def test_turns_are_put_together_as_they_were_divided(num_devices, per_device, at_once, axes):
    num_runs = num_devices * per_device
    placement = Placement(toy_simulation(), num_runs, at_once, jax.devices()[:num_devices])
    shape = (num_runs, 2, 3)
    tree = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "none": np.zeros((num_runs, 0, 2), bool)}
    parts = placement.split(tree)
    assert len(parts) == per_device // at_once
    assert all(part["x"].ndim == axes + 2 for part in parts)
    found = placement.join(parts, num_runs)
    for name, leaf in tree.items():
        assert found[name].dtype == leaf.dtype
        np.testing.assert_array_equal(found[name], leaf)


def test_states_that_were_read_keep_no_copy_of_what_was_read():
    """Or each saved state of a study on several devices would take the memory of its state once more."""
    placement = Placement(toy_simulation(), 4, 1, jax.devices()[:2])
    parts = placement.split({"x": np.ones((4, 5), np.float32)})
    placement.join(parts, 4)
    assert [part["x"]._npy_value for part in parts] == [None, None]
    np.asarray(parts[0]["x"])
    assert parts[0]["x"]._npy_value is not None  # what this test would see
