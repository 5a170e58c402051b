"""Numbers of members: bounds, types, texts, nesting, inheritance; registries; the line for an unknown name."""

import math

import jax
import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import (
    Numbers,
    fields_of,
    kinds_of,
    number,
)
from mdfl_jax.core.registry import Registry

MILES = {"one": (1.0, 2.0), "two": (3.0, 4.0)}


class Wander(Numbers):
    speed: float = number(5.0, "metres a second", above=0, unit="m/s", source="a paper")
    share: float = number(0.5, "of them", at_least=0, at_most=1)
    below_one: float = number(0.0, "momentum", at_least=0, below=1)
    steps: int = number(3, "how many", at_least=1, at_most=10)
    loose: float = number(math.inf, "no bound at all", finite=False)
    straight: bool = number(False, "whether")
    way: str = number("one", "by name", read=lambda text: np.array(MILES[text]))


class Shape(Numbers):
    widths: tuple[int, ...] = number((4, 8), "of the layers", static=True, at_least=1)
    kernel: int = number(3, "size", static=True, at_least=1, odd=True)
    norm: str = number("batch", "which", static=True, names=("batch", "group"))
    scale: float = number(1.0, "traced beside static ones", at_least=0)


class Inner(Numbers):
    levels: int = number(16, "of a quantiser", at_least=1)


def line_of(numbers, prefix=""):
    with pytest.raises(UserError) as caught:
        numbers.validate(prefix)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_traced_numbers_are_the_leaves_and_static_ones_the_structure():
    leaves, structure = jax.tree.flatten(Shape())
    assert leaves == [1.0]
    assert jax.tree.structure(Shape(scale=2.0)) == structure
    for other in (Shape(widths=(4,)), Shape(kernel=5), Shape(norm="group")):
        assert jax.tree.structure(other) != structure
    assert jax.tree.unflatten(structure, [7.0]) == Shape(scale=7.0)
    assert jax.tree.leaves(Wander()) == [5.0, 0.5, 0.0, 3, math.inf, False, "one"]
    assert jax.tree.map(lambda x: x + 1, Inner(2)) == Inner(3)
    assert jax.tree.leaves(Numbers()) == []


@pytest.mark.parametrize("how", ["traced", "typed"])
def test_kinds_of_arrays(how):
    """32 bits whatever the types of what is given, in x64 as well; texts as what they are read to."""
    given = Wander(speed=2, steps=np.int64(4), share=np.float64(0.25), straight=1, way="two")
    with jax.enable_x64(True):
        found = getattr(given, how)()
    kind = np.generic if how == "traced" else jax.Array
    expected = {"speed": "float32", "share": "float32", "below_one": "float32", "steps": "int32", "loose": "float32"}
    for name, dtype in (expected | {"straight": "bool"}).items():
        value = getattr(found, name)
        assert isinstance(value, kind), name
        assert (value.dtype, value.shape) == (np.dtype(dtype), ()), name
    assert (float(found.speed), int(found.steps), bool(found.straight)) == (2.0, 4, True)
    assert found.way.dtype == np.float32
    np.testing.assert_array_equal(found.way, [3.0, 4.0])
    again = getattr(found, how)()  # what is an array already is not read again
    np.testing.assert_array_equal(again.way, [3.0, 4.0])
    assert jax.tree.structure(again) == jax.tree.structure(found)


def test_a_subclass_has_the_numbers_above_it_and_may_give_them_other_defaults():
    class Rush(Wander):
        speed: float = number(50.0, "much faster", at_least=10)
        hurry: float = number(1.0, "of its own", at_least=0)

    assert [*fields_of(Rush)] == [*fields_of(Wander), "hurry"]
    assert (Rush().speed, Rush().share, Wander().speed) == (50.0, 0.5, 5.0)
    assert line_of(Rush(speed=5.0)) == "speed is 5.0; it must be at least 10 and finite"
    assert line_of(Rush(share=2.0)) == "share is 2.0; it must be at least 0 and at most 1"
    assert fields_of(Rush)["speed"].metadata["doc"] == "much faster"
    assert fields_of(Wander)["speed"].metadata["doc"] == "metres a second"
    assert jax.tree.structure(Rush()) != jax.tree.structure(Wander())
    assert (kinds_of(Rush)["hurry"], kinds_of(Rush)["steps"], kinds_of(Rush)["way"]) == (float, int, str)
    assert float(Rush().traced().hurry) == 1.0


def test_a_registry_keeps_the_numbers_and_the_line_of_each_member():
    members = Registry("walk", Inner)

    @members.register("wander", Wander)
    def wander():
        """Here and there.

        And back.
        """

    members.register("plain", doc="As usual.")(lambda: None)
    assert members.numbers("wander") is Wander
    assert members.numbers("plain") is Inner
    assert Registry("walk").register("x")(wander) is wander
    assert (members.doc("wander"), members.doc("plain")) == ("Here and there.", "As usual.")
    for ask in (members.numbers, members.doc, members.__getitem__):
        with pytest.raises(UserError, match=r"unknown walk 'wandr' \(did you mean 'wander'\?\); known: plain, wander"):
            ask("wandr")
    members.register("wander", Shape)(wander)  # the same module gives it again
    assert members.numbers("wander") is Shape
    elsewhere = compile("members.register('wander')(wander)", "elsewhere.py", "exec")
    with pytest.raises(UserError, match=r"walk 'wander' is there already, from .*test_numbers.py; choose another name"):
        exec(elsewhere, {"members": members, "wander": wander, "__name__": "elsewhere"})
    assert members["wander"] is wander
