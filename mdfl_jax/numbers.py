"""The numbers of a member of a family, declared once, in the member's own file.

A mobility rule, an algorithm, a compressor and so on is registered with a class of its numbers. The class is all there
is to say of them: config fields, command-line flags, sweep axes, checks, error texts and `launch.info --list` are made
from it. `None` in a configuration means the member's default, which is its paper's number where a paper gives one.
"""

import dataclasses
import math
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, Self, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.errors import UserError, unknown_name

LARGEST = 2**31 - 1  # the programs count in 32 bits
KINDS: dict[Any, Any] = {int: np.int32, bool: np.bool_, float: np.float32}
BOUNDS = {
    "at_least": (lambda value, bound: value >= bound, "at least"),
    "above": (lambda value, bound: value > bound, "greater than"),
    "at_most": (lambda value, bound: value <= bound, "at most"),
    "below": (lambda value, bound: value < bound, "less than"),
}
RULES = (*BOUNDS, "finite", "odd", "names", "unit", "source", "read")


class Setting(NamedTuple):
    """What the checks of a member may look at besides its own numbers; each family fills in what it has.

    Attributes:
      member: the name of the member that is checked.
      num_clients: N.
      num_mobile: M.
      width, height: of the plane, metres.
      dt: seconds of a round.
      allow_disconnected: whether graphs need not be connected.
      largest_gap: the longest gap between two meetings with a server, in slots; None where only a run tells.
    """

    member: str = ""
    num_clients: int = 1
    num_mobile: int = 0
    width: float = math.inf
    height: float = math.inf
    dt: float = 1.0
    allow_disconnected: bool = False
    largest_gap: int | None = None


def number(default: Any, doc: str, static: bool = False, **rules: Any) -> Any:
    """One number of a member: a field of a class of `Numbers`.

    Args:
      default: what it is where a configuration says nothing; the paper's number where there is one.
      doc: one line of help.
      static: it decides the shape of a program, so that points of a sweep that differ in it are compiled anew. Without
        that it is traced.
      **rules: ``at_least``, ``above``, ``at_most``, ``below`` (bounds), ``finite`` (so by default where nothing bounds
        a traced number from above), ``odd``, ``names`` (of texts: those allowed), ``unit`` and ``source`` (texts),
        ``read`` (of texts: a function to the array that the program sees).

    Raises:
      UserError: for a rule that there is not.
    """
    if unknown := [rule for rule in rules if rule not in RULES]:
        raise UserError(unknown_name("rule of a number", unknown[0], RULES))
    kept = {"finite": not (static or "at_most" in rules or "below" in rules), **rules}
    return dataclasses.field(default=default, metadata={"doc": doc, "traced": not static, **kept})


def nested(numbers: "Numbers") -> Any:
    """A field that holds the numbers of another member, as an algorithm those of its compressor."""
    return dataclasses.field(default=numbers)


@dataclass_transform(frozen_default=True)
class Numbers:
    """The numbers of a member; the base class has none. A subclass is a frozen dataclass and a pytree.

    Its fields are declared with `number` and annotated as int, float, bool, str or tuple[int, ...]. Traced ones are the
    leaves of the pytree, static ones are part of its structure.

    >>> class Wander(Numbers):
    ...     speed: float = number(5.0, "metres a second", above=0)
    >>> Wander(speed=2.0)
    Wander(speed=2.0)
    >>> Wander(speed=-1.0).validate("motion.")
    Traceback (most recent call last):
      ...
    mdfl_jax.errors.UserError: motion.speed is -1.0; it must be greater than 0 and finite
    """

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        _as_pytree(cls)

    def check(self, setting: Setting) -> None:
        """Checks what one number alone cannot tell; a subclass says what.

        Raises:
          UserError: naming the numbers and their values.
        """

    def notes(self, setting: Setting) -> list[str]:
        """What is allowed and yet hardly meant, a line each."""
        return []

    def replace(self, **changes: Any) -> Self:
        """The same numbers but for some."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def validate(self, prefix: str = "") -> None:
        """Checks every number against its own bounds.

        Args:
          prefix: what stands before a number's name in an error.

        Raises:
          UserError: naming the number, its value and what is allowed.
        """
        for name, field in fields_of(type(self)).items():
            value, names = getattr(self, name), field.metadata.get("names")
            check_bounds(prefix + name, value, field.metadata)
            if names and value not in names:
                raise UserError(f"{prefix}{name}: {unknown_name(name, value, names)}")

    def traced(self) -> Self:
        """The same with NumPy scalars and arrays of fixed type in place of what is traced."""
        return self._converted(lambda value, kind: np.asarray(value, kind)[()])

    def typed(self) -> Self:
        """The same with arrays of fixed type, inside a program."""
        return self._converted(jnp.asarray)

    def _converted(self, array: Callable[[Any, Any], Any]) -> Self:
        """What is traced made an array, the numbers of another member that are held among it."""
        kinds, found = kinds_of(type(self)), {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value, read = getattr(self, field.name), field.metadata.get("read")
            if isinstance(value, Numbers):
                found[field.name] = value._converted(array)
            elif field.metadata.get("traced"):
                value = read(value) if read and isinstance(value, str) else value
                found[field.name] = array(value, KINDS.get(kinds[field.name], np.float32))
        return self.replace(**found)


def _as_pytree(cls: type) -> None:
    dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)
    static = [field.name for field in fields if not field.metadata.get("traced", True)]
    jax.tree_util.register_dataclass(cls, [field.name for field in fields if field.name not in static], static)


_as_pytree(Numbers)


def fields_of(kind: type[Numbers]) -> dict[str, dataclasses.Field]:
    """The numbers of a class by name; fields that hold another member's numbers are none."""
    return {field.name: field for field in dataclasses.fields(kind) if "doc" in field.metadata}  # type: ignore[arg-type]


def kinds_of(kind: type[Numbers]) -> dict[str, Any]:
    """The types of its numbers by name."""
    return typing.get_type_hints(kind)


def from_values(kind: type[Numbers], values: dict[str, Any]) -> Any:
    """The numbers of a class, its own where nothing, or None, is given; what it does not have is left out."""
    return kind(**{name: values[name] for name in fields_of(kind) if values.get(name) is not None})


def single(value: float) -> float:
    """A number as the programs see it, in single precision: what is too small is 0, what is too large infinite."""
    with np.errstate(over="ignore"):
        seen = np.float32(value)
    return 0.0 if abs(seen) < np.finfo(np.float32).tiny else float(seen)


def check_bounds(path: str, value: Any, rules: Any) -> None:
    """Checks a value, or each of several, against the rules of its field.

    Raises:
      UserError: naming the field, its value and what is allowed.
    """
    for item in value if isinstance(value, tuple) else (value,):
        _check_item(path, item, rules)


def _check_item(path: str, value: Any, rules: Any) -> None:
    if not isinstance(value, int | float):
        return
    seen = single(value) if isinstance(value, float) and rules.get("traced") else value
    present = [name for name in BOUNDS if name in rules]
    broken = any(not BOUNDS[name][0](seen, rules[name]) for name in present)  # NaN breaks every bound
    finite = bool(rules.get("finite")) and isinstance(value, float)
    if broken or (finite and not math.isfinite(seen)):
        allowed = [f"{BOUNDS[name][1]} {rules[name]}" for name in present] + ["finite"] * finite
        rounded = f", {seen} in single precision" if seen in (0.0, math.inf) and seen != value else ""
        raise UserError(f"{path} is {value}{rounded}; it must be {' and '.join(allowed)}")
    if isinstance(value, int) and abs(value) > LARGEST:
        side = "at most" if value > 0 else "at least -"
        raise UserError(f"{path} is {value}; it must be {side}{' ' if value > 0 else ''}{LARGEST}")
    if rules.get("odd") and value % 2 == 0:
        raise UserError(f"{path} is {value}; it must be odd")
