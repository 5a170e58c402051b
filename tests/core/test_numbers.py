"""Numbers of members as arrays of a program."""

import math

import jax
import numpy as np
import pytest

from mdfl_jax.core.numbers import Numbers, number

MILES = {"one": (1.0, 2.0), "two": (3.0, 4.0)}


class Wander(Numbers):
    speed: float = number(5.0, "metres a second", above=0, unit="m/s", source="a paper")
    share: float = number(0.5, "of them", at_least=0, at_most=1)
    steps: int = number(3, "how many", at_least=1, at_most=10)
    loose: float = number(math.inf, "no bound at all", finite=False)
    straight: bool = number(False, "whether")
    way: str = number("one", "by name", read=lambda text: np.array(MILES[text]))
    widths: tuple[int, ...] = number((4, 8), "of the layers", static=True, at_least=1)


@pytest.mark.parametrize("how", ["traced", "typed"])
def test_kinds_of_arrays(how):
    """32 bits whatever the types of what is given, in x64 as well; texts as what they are read to; no static ones."""
    given = Wander(speed=2, steps=np.int64(4), share=np.float64(0.25), straight=1, way="two")
    with jax.enable_x64(True):
        found = getattr(given, how)()
    kind = np.generic if how == "traced" else jax.Array
    expected = {"speed": "float32", "share": "float32", "steps": "int32", "loose": "float32", "straight": "bool"}
    for name, dtype in expected.items():
        value = getattr(found, name)
        assert isinstance(value, kind), name
        assert (value.dtype, value.shape) == (np.dtype(dtype), ()), name
    assert (float(found.speed), int(found.steps), bool(found.straight)) == (2.0, 4, True)
    assert found.way.dtype == np.float32
    for each in (found, getattr(found, how)()):  # what is an array already is not read again
        np.testing.assert_array_equal(each.way, [3.0, 4.0])
    assert len(jax.tree.leaves(found)) == 6
    assert jax.tree.structure(found) == jax.tree.structure(getattr(Wander(), how)())
    assert jax.tree.structure(found) != jax.tree.structure(getattr(Wander(widths=(4,)), how)())
