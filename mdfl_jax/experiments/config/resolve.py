"""The configuration of a study: typed and checked.

A config file (``configs/*.py``) takes `default_config`, changes what it needs and returns it; `resolve` makes of the
ml_collections tree the frozen dataclasses of `mdfl_jax.experiments.config.sections`. Where something is off it names
the field, its value and what is allowed.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.experiments.config.checks import check_together
from mdfl_jax.experiments.config.families import check_own, schema
from mdfl_jax.experiments.config.sections import Experiment
from mdfl_jax.numbers import check_bounds

RENAMED = {"network.warm_up_met": "motion.warm_up_met", "network.tell_met": "motion.tell_met"}


def default_config() -> ConfigDict:
    """Every field with its default, to be changed by a config file; unknown fields cannot be added.

    The numbers of members are None, which stands for the member's own.
    """
    tree = ConfigDict(dataclasses.asdict(schema()()))
    for path, field in all_fields().items():
        if "own" in field.metadata:
            section, name = path.split(".")
            tree[section][name] = placeholder(tuple if field.type == tuple[int, ...] else field.type)
    return tree.lock()


def all_fields(kind: type | None = None, prefix: str = "") -> dict[str, dataclasses.Field]:
    """The fields of a config by path: {'network.radius': field, ...}."""
    found: dict[str, dataclasses.Field] = {}
    for field in dataclasses.fields(kind or schema()):
        if dataclasses.is_dataclass(field.type):
            found |= all_fields(field.type, f"{prefix}{field.name}.")  # type: ignore[arg-type]
        else:
            found[prefix + field.name] = field
    return found


def check_key(path: str) -> dataclasses.Field:
    """The field at a path.

    Raises:
      UserError: where there is none; the nearest is suggested.
    """
    fields = all_fields()
    if path in RENAMED:
        raise UserError(f"{path} is called {RENAMED[path]} now")
    if path not in fields:
        raise UserError(unknown_name("config key", path, fields))
    return fields[path]


def check_value(path: str, value: Any) -> Any:
    """The value of a field in its type, within its bounds; None, for a member's number, stays.

    Raises:
      UserError: naming the field, its value and what is allowed.
    """
    field = check_key(path)
    rules = field.metadata
    if value is None and "own" in rules:
        return None
    value = _typed(path, field.type, value)
    if "own" in rules:
        check_own(path, value, rules)
        return value
    check_bounds(path, value, rules)
    names = rules.get("names", ())
    known = names() if callable(names) else names
    if known and value not in known:
        raise UserError(f"{path}: {unknown_name(path.split('.')[-1], value, known)}")
    return value


def in_words(kind: Any) -> str:
    """What a field of a type takes, for error lines."""
    words = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}
    return words.get(kind, "whole numbers, as in (16, 32)")


def _typed(path: str, kind: Any, value: Any) -> Any:
    """The value as the field's type: whole numbers pass as floats, sequences of whole numbers as tuples."""
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
    if kind in (int, str, bool) and type(value) is kind:
        return value
    if kind == tuple[int, ...] and isinstance(value, Iterable) and not isinstance(value, str):
        items = tuple(value)
        if all(type(item) is int for item in items):
            return items
    shown = " ".join(repr(value).split())  # a ConfigDict takes several lines
    raise UserError(f"{path} is {shown}; it must be {in_words(kind)}")


def resolve(config: ConfigDict) -> Experiment:
    """The frozen, checked configuration.

    Raises:
      UserError: for an unknown field, a wrong type, a value out of bounds or fields that contradict each other.
    """

    def section(kind: type, tree: Any, prefix: str) -> Any:
        if not isinstance(tree, ConfigDict | Mapping):
            raise UserError(f"{prefix[:-1] or 'the config'} is {tree!r}; it must be a section with fields of its own")
        known = {field.name: field for field in dataclasses.fields(kind)}
        for name in tree:
            if name not in known:
                check_key(prefix + name)
        values = {}
        for name, field in known.items():
            if name not in tree:
                continue
            if dataclasses.is_dataclass(field.type):
                values[name] = section(field.type, tree[name], f"{prefix}{name}.")  # type: ignore[arg-type]
            else:
                values[name] = check_value(prefix + name, tree[name])
        return kind(**values)

    experiment: Experiment = section(schema(), config, "")
    check_together(experiment)
    return experiment
