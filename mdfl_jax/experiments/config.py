"""The configuration of a study: typed and checked.

A config file (``configs/*.py``) takes `default_config`, changes what it needs and returns it; `resolve` turns the
ml_collections tree into the frozen dataclasses of `mdfl_jax.experiments.sections` and names the field, its value and
what is allowed where something is off.
"""

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.experiments.algorithm_checks import check_algorithm
from mdfl_jax.experiments.graph_points import check_graph
from mdfl_jax.experiments.pretrained_files import check_pretrained
from mdfl_jax.experiments.sections import Experiment
from mdfl_jax.experiments.server_checks import check_server
from mdfl_jax.experiments.trace_files import check_trace
from mdfl_jax.experiments.world_checks import check_world
from mdfl_jax.regression import KINDS

LARGEST = 2**31 - 1  # the programs count in 32 bits


def default_config() -> ConfigDict:
    """Every field with its default, to be changed by a config file; unknown fields cannot be added."""
    return ConfigDict(dataclasses.asdict(Experiment())).lock()


def all_fields(kind: type = Experiment, prefix: str = "") -> dict[str, dataclasses.Field]:
    """The fields of a config by path: {'network.radius': field, ...}."""
    found: dict[str, dataclasses.Field] = {}
    for field in dataclasses.fields(kind):
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
    if path not in fields:
        raise UserError(unknown_name("config key", path, fields))
    return fields[path]


def check_value(path: str, value: Any) -> Any:
    """The value of a field in its type, within its bounds.

    Raises:
      UserError: naming the field, its value and what is allowed.
    """
    field = check_key(path)
    rules = field.metadata
    value = _typed(path, field.type, value)
    for item in value if isinstance(value, tuple) else (value,):
        _check_bounds(path, item, rules)
    if "names" in rules and value not in rules["names"]:
        raise UserError(f"{path}: {unknown_name(path.split('.')[-1], value, rules['names'])}")
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


def _single(value: float) -> float:
    """A number as the programs see it, in single precision: what is too small is 0, what is too large infinite."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    return 0.0 if abs(single) < np.finfo(np.float32).tiny else float(single)


def _check_bounds(path: str, value: Any, rules: Any) -> None:
    tests = {
        "at_least": (lambda v, b: v >= b, "at least"),
        "above": (lambda v, b: v > b, "greater than"),
        "at_most": (lambda v, b: v <= b, "at most"),
        "below": (lambda v, b: v < b, "less than"),
    }
    seen = _single(value) if isinstance(value, float) and rules.get("traced") else value
    present = [name for name in tests if name in rules]
    broken = any(not tests[name][0](seen, rules[name]) for name in present)  # NaN breaks every bound
    if broken or (rules.get("finite") and not math.isfinite(seen)):
        allowed = " and ".join(f"{tests[name][1]} {rules[name]}" for name in present)
        rounded = f", {seen} in single precision" if seen in (0.0, math.inf) and seen != value else ""
        finite = " and finite" if rules.get("finite") else ""
        raise UserError(f"{path} is {value}{rounded}; it must be {allowed}{finite}")
    if isinstance(value, int) and value > LARGEST:
        raise UserError(f"{path} is {value}; it must be at most {LARGEST}")
    if rules.get("odd") and value % 2 == 0:
        raise UserError(f"{path} is {value}; it must be odd")


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
                raise UserError(unknown_name("config key", prefix + name, all_fields()))
        values = {}
        for name, field in known.items():
            if name not in tree:
                continue
            if dataclasses.is_dataclass(field.type):
                values[name] = section(field.type, tree[name], f"{prefix}{name}.")  # type: ignore[arg-type]
            else:
                values[name] = check_value(prefix + name, tree[name])
        return kind(**values)

    experiment: Experiment = section(Experiment, config, "")
    check_together(experiment)
    return experiment


def check_task(experiment: Experiment) -> None:
    """Checks of synthetic data, of the stop rule and of float64, which only synthetic data has.

    Raises:
      UserError: naming the field and its value.
    """
    name, synthetic = experiment.data.name, experiment.data.name.startswith("synthetic:")
    if synthetic and name.removeprefix("synthetic:") not in KINDS:
        raise UserError(f"data.name: {unknown_name('synthetic data', name, [f'synthetic:{kind}' for kind in KINDS])}")
    if not synthetic and experiment.stop_std:
        raise UserError(f"stop_std is {experiment.stop_std}; it must be 0 unless data.name is synthetic:...")
    if synthetic and experiment.engine.precision not in ("float32", "float64"):
        raise UserError(f"engine.precision is {experiment.engine.precision}; with {name} it is float32 or float64")
    if not synthetic and experiment.engine.precision == "float64":
        raise UserError("engine.precision is float64; it must be another unless data.name is synthetic:...")


def check_together(experiment: Experiment) -> None:
    """Checks what one field alone cannot tell.

    Raises:
      UserError: naming the fields and their values.
    """
    network, data = experiment.network, experiment.data
    if network.num_mobile > network.num_clients and not network.graph:
        raise UserError(
            f"network.num_mobile is {network.num_mobile}; it must be at most network.num_clients, "
            f"which is {network.num_clients}"
        )
    if network.graph:
        check_graph(experiment)
    else:
        check_world(network, experiment.motion)
        check_trace(experiment)
    check_task(experiment)
    check_pretrained(experiment)
    check_algorithm(experiment.algorithm)
    check_server(experiment)
    if experiment.rounds % experiment.eval_every:
        raise UserError(
            f"rounds is {experiment.rounds}; it must be a multiple of eval_every, which is {experiment.eval_every}"
        )
    if experiment.model.name in ("cnn", "gn_lenet") and not experiment.model.widths:
        raise UserError(f"model.widths is (); model.name {experiment.model.name} needs one width or more")
    name = experiment.name
    if name in ("", ".", "..") or any(c in name for c in "/\\\0") or len(name.encode()) > 200:
        raise UserError(f"name is {name!r}; it must be a file name of at most 200 bytes")
    if not data.name:
        raise UserError("data.name is ''; it must be digits, the name of an .npz in data.dir, or tfds:<name>")
