"""Declares the hyperparameters (in code: numbers) of an entry of a registry, once, in the entry's own file.

A mobility rule, an algorithm or a compressor is registered with a class of its hyperparameters. Config fields, flags,
sweep axes, checks, error lines and the output of `mdfl info --list` are all made from this class. `None` in a
configuration means the entry's default, which is the paper's value if the paper gives one.
"""

import dataclasses
import math
import typing
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name

_LARGEST = 2**31 - 1  # the compiled programs use 32-bit integers
_KINDS: dict[Any, Any] = {int: np.int32, bool: np.bool_, float: np.float32}
BOUNDS = {
    "at_least": (lambda value, bound: value >= bound, "at least"),
    "above": (lambda value, bound: value > bound, "greater than"),
    "at_most": (lambda value, bound: value <= bound, "at most"),
    "below": (lambda value, bound: value < bound, "less than"),
}
RULES = (*BOUNDS, "finite", "odd", "names", "unit", "source", "read", "part")


class Setting(NamedTuple):
    """The parts of a configuration that the checks of an entry may read, besides the entry's own hyperparameters.

    Attributes:
      member: the name of the entry that is checked.
      num_clients: the number of clients, N.
      num_mobile: the number of mobile clients, M.
      width, height: the size of the plane, in metres.
      dt: the length of a round, in seconds.
      allow_disconnected: whether disconnected graphs are allowed.
      largest_gap: the longest gap between two meetings with a server, in slots; None if only a run can show it.
      local_steps: the optimiser steps of a client in a round, E; 0: clients take epochs.
    """

    member: str = ""
    num_clients: int = 1
    num_mobile: int = 0
    width: float = math.inf
    height: float = math.inf
    dt: float = 1.0
    allow_disconnected: bool = False
    local_steps: int = 1
    largest_gap: int | None = None


def number(default: Any, doc: str, static: bool = False, **rules: Any) -> Any:
    """Declare one hyperparameter of an entry, as a field of a subclass of `Numbers`.

    Args:
      default: the value if a configuration sets none; the paper's value if there is one.
      doc: one line of help.
      static: whether the hyperparameter is a constant of the compiled program, so that each value needs a compilation.
        Otherwise it is traced.
      **rules: the bounds ``at_least``, ``above``, ``at_most`` and ``below``; ``finite``, by default true for a traced
        hyperparameter without an upper bound; ``odd``; ``names``, the allowed values of a text; the texts ``unit`` and
        ``source``; ``read``, a function that converts a text to the array that the program uses; ``part``, when the
        hyperparameter has an effect, as in `mdfl_jax.core.section.field`.

    Raises:
      UserError: for an unknown rule.
    """
    if unknown := [rule for rule in rules if rule not in RULES]:
        raise UserError(unknown_name("rule of a number", unknown[0], RULES))
    kept = {"finite": not (static or "at_most" in rules or "below" in rules), **rules}
    return dataclasses.field(default=default, metadata={"doc": doc, "traced": not static, **kept})


def nested(numbers: "Numbers") -> Any:
    """Declare a field that holds another entry's hyperparameters, as an algorithm holds those of its compressor."""
    return dataclasses.field(default=numbers)


@dataclass_transform(frozen_default=True)
class Numbers:
    """The hyperparameters of an entry; the base class has none. Each subclass is a frozen dataclass and a pytree.

    The fields are declared with `number` and annotated as int, float, bool, str or tuple[int, ...]. Traced fields are
    the leaves of the pytree; static fields are part of its structure.

    >>> class Wander(Numbers):
    ...     speed: float = number(5.0, "metres a second", above=0)
    >>> Wander(speed=2.0)
    Wander(speed=2.0)
    >>> Wander(speed=-1.0).validate("motion.")
    Traceback (most recent call last):
      ...
    mdfl_jax.core.errors.UserError: motion.speed is -1.0; it must be greater than 0 and finite
    """

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        _as_pytree(cls)

    def check(self, setting: Setting) -> None:
        """Check conditions on several hyperparameters or the setting. Subclasses override it; the base checks nothing.

        Args:
          setting: the other parts of the configuration.

        Raises:
          UserError: if a condition is violated; the message names the hyperparameters and their values.
        """

    def notes(self, setting: Setting) -> list[str]:
        """Return one line for each combination of values that is allowed but probably a mistake."""
        return []

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values of the given hyperparameters."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def validate(self, prefix: str = "") -> None:
        """Check each hyperparameter against its own bounds.

        Args:
          prefix: the text before a name in an error message, for example "motion.".

        Raises:
          UserError: if a value is out of bounds; the message names the hyperparameter, its value and the allowed
            values.
        """
        for name, field in fields_of(type(self)).items():
            check_value(prefix + name, getattr(self, name), field.metadata)

    def traced(self) -> Self:
        """Return a copy whose traced values are NumPy scalars and arrays of fixed types."""
        return self._converted(lambda value, kind: np.asarray(value, kind)[()])

    def typed(self) -> Self:
        """Return a copy whose traced values are JAX arrays of fixed types, for use inside a compiled program."""
        return self._converted(jnp.asarray)

    def _converted(self, array: Callable[[Any, Any], Any]) -> Self:
        """Convert each traced value with ``array``, also in the nested hyperparameters of other entries."""
        kinds, found = kinds_of(type(self)), {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value, read = getattr(self, field.name), field.metadata.get("read")
            if isinstance(value, Numbers):
                found[field.name] = value._converted(array)
            elif field.metadata.get("traced"):
                value = read(value) if read and isinstance(value, str) else value
                found[field.name] = array(value, _KINDS.get(kinds[field.name], np.float32))
        return self.replace(**found)


def _as_pytree(cls: type) -> None:
    dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)
    static = [field.name for field in fields if not field.metadata.get("traced", True)]
    jax.tree_util.register_dataclass(cls, [field.name for field in fields if field.name not in static], static)


_as_pytree(Numbers)


def fields_of(kind: type[Numbers]) -> dict[str, dataclasses.Field]:
    """Return the fields of a class of hyperparameters by name, without its `nested` fields."""
    return {field.name: field for field in dataclasses.fields(kind) if "doc" in field.metadata}  # type: ignore[arg-type]


class StaticNumbers(Numbers):
    """Base class of the hyperparameters of entries that shape the program: all must be static.

    Attributes:
      of: the kind of entry, for error messages.
    """

    of: ClassVar[str] = "member"

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        for name, field in fields_of(cls).items():
            if field.metadata["traced"]:
                raise UserError(
                    f"{cls.__name__}.{name} is a number of a {cls.of}; it must be declared with static=True"
                )


def kinds_of(kind: type[Numbers]) -> dict[str, Any]:
    """Return the types of the fields of a class of hyperparameters, by name."""
    return typing.get_type_hints(kind)


def from_values(kind: type[Numbers], values: dict[str, Any]) -> Any:
    """Make an instance of a class of hyperparameters from values by name.

    A missing value, or None, gives the default of the class. Names that the class does not have are ignored.
    """
    return kind(**{name: values[name] for name in fields_of(kind) if values.get(name) is not None})


def checked(member: str, kind: type[Numbers], values: dict[str, Any], prefix: str = "") -> Any:
    """Make an instance of a class of hyperparameters from values by name; check names, types and bounds.

    Args:
      member: the name of the entry, for error messages.
      kind: the class of its hyperparameters.
      values: the values; None or a missing value gives the default of the class. Traced values are not checked.
      prefix: the text before a name in an error message.

    Raises:
      UserError: if a name is unknown, or a value has another type or is out of bounds.
    """
    fields, kinds = fields_of(kind), kinds_of(kind)
    for name, value in values.items():
        if name not in fields:
            known = unknown_name(f"number of {member}", name, fields) if fields else f"{member} has no number {name!r}"
            raise UserError(known)
        allowed, words = {float: ((int, float), "a number"), int: ((int,), "a whole number")}.get(kinds[name], ((), ""))
        if allowed and isinstance(value, str | bool | int | float) and type(value) not in allowed:
            raise UserError(f"{prefix}{name} is {value!r}; it must be {words}")
    made = from_values(kind, values)
    made.validate(prefix)
    return made


def of_fixed_types(params: Any) -> Any:
    """Return a NamedTuple of NumPy scalars of fixed types, so that no sweep point is compiled again."""
    return params._replace(**{n: _KINDS[type(x)](x) for n, x in params._asdict().items() if type(x) in _KINDS})


def single(value: float) -> float:
    """Round a number to single precision, as the programs use it. Subnormal values become 0, too large ones infinite.

    Args:
      value: a number in double precision.
    """
    with np.errstate(over="ignore"):
        seen = np.float32(value)
    return 0.0 if abs(seen) < np.finfo(np.float32).tiny else float(seen)


def check_value(path: str, value: Any, rules: Any) -> None:
    """Check a value, or each item of a tuple, against the rules of its field.

    Args:
      path: the name of the field in the error message.
      value: the value, or a tuple of values.
      rules: the rules by name, as in `number`. ``names`` may be a function that returns the names.

    Raises:
      UserError: if a value breaks a rule; the message names the field, its value and the allowed values.
    """
    for item in value if isinstance(value, tuple) else (value,):
        _check_item(path, item, rules)
    names = rules.get("names", ())
    known = names() if callable(names) else names
    if known and value not in known:
        of_registry = hasattr(known, "unknown")
        line = known.unknown(value) if of_registry else unknown_name(path.split(".")[-1], value, known)
        raise UserError(f"{path}: {line}")


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
    if isinstance(value, float) and math.isfinite(value) and math.isinf(seen):
        raise UserError(f"{path} is {value}, inf in single precision; it must be inf, or below 3.4e38")
    if isinstance(value, int) and abs(value) > _LARGEST:
        side = "at most" if value > 0 else "at least -"
        raise UserError(f"{path} is {value}; it must be {side}{' ' if value > 0 else ''}{_LARGEST}")
    if rules.get("odd") and value % 2 == 0:
        raise UserError(f"{path} is {value}; it must be odd")
