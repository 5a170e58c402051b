"""Makes the typed and checked configuration of a study.

A config file (``configs/*.py``) calls `default_config`, changes the fields that it needs and returns the result, an
ml_collections tree. `resolve` turns this tree into the frozen dataclasses of `mdfl_jax.config.sections`. An error
message names the field, its value and what is allowed.
"""

import contextlib
import dataclasses
import functools
import os
import re
import runpy
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from mdfl_jax.config.checks import check_together
from mdfl_jax.config.sections import Experiment, flat, schema
from mdfl_jax.core import numbers
from mdfl_jax.core.errors import UserError, check_path, errors_about, unknown_name
from mdfl_jax.core.own_files import place
from mdfl_jax.core.sweep_text import split_axes
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.registry import movement_of
from mdfl_jax.storage.given import CODE, check_file, import_given

_RENAMED = {"network.warm_up_met": "motion.warm_up_met", "network.tell_met": "motion.tell_met"}
"""Fields that had another path in earlier versions."""
_ALIKE = re.compile(r'Did you mean "(\w+)" instead of "(\w+)"\?')
_ABSENT = re.compile(r'Key "(\w+)" does not exist and cannot be added')
"""What an ml_collections tree says of a field that it lacks, the second with all fields that it has."""
Config: TypeAlias = ConfigDict | Mapping[str, Any] | str | Path


def default_config() -> ConfigDict:
    """Return every field with its default, to be changed by a config file. Unknown fields cannot be added.

    The hyperparameters of entries are None, which stands for the entry's own default.
    """
    tree = ConfigDict(dataclasses.asdict(schema()()))
    for path, field in all_fields().items():
        if "own" in field.metadata:
            section, name = path.split(".")
            tree[section][name] = placeholder(tuple if field.type == tuple[int, ...] else field.type)
    return tree.lock()


def all_fields() -> dict[str, dataclasses.Field]:
    """Return the fields of a configuration by path: {'network.radius': field, ...}."""
    kind: type = schema()
    return dict(_fields(kind))


@functools.cache  # a sweep asks for them at each of its values
def _fields(kind: type, prefix: str = "") -> dict[str, dataclasses.Field]:
    found: dict[str, dataclasses.Field] = {}
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(field.type):
            found |= _fields(field.type, f"{prefix}{field.name}.")  # type: ignore[arg-type]
        else:
            found[prefix + field.name] = field
    return found


def check_key(path: str) -> dataclasses.Field:
    """Return the field at a path.

    Raises:
      UserError: If there is no such field. The message suggests the nearest one.
    """
    fields = all_fields()
    if path in _RENAMED:
        raise UserError(f"{path} is called {_RENAMED[path]} now")
    if any(name.startswith(f"{path}.") for name in fields):
        raise UserError(f"{path} is a section; set its fields, as in {path}.FIELD=VALUE")
    if path not in fields:
        raise UserError(unknown_name("config key", path, fields))
    return fields[path]


def checked_value(path: str, value: Any) -> Any:
    """Return a value in the type of its field, after checking its bounds. None is kept for an entry's number.

    Raises:
      UserError: If the value is not allowed. The message names the field, its value and what is allowed.
    """
    return _checked(path, check_key(path), value)


def _checked(path: str, field: dataclasses.Field, value: Any) -> Any:
    rules = field.metadata
    if value is None and "own" in rules:
        return None
    value = _typed(path, field.type, value)
    if field.type is str and (rules.get("file") or "\0" in value):
        check_path(path, value)
    errors = []
    for declared in rules.get("declared", (rules,)):  # of several entries with this number, one must allow the value
        try:
            numbers.check_value(path, value, declared)
            return value
        except UserError as error:
            errors.append(error)
    raise errors[0]


def _in_words(kind: Any) -> str:
    """Say in words which values a field of this type takes, for error messages."""
    words = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}
    return words.get(kind, "whole numbers, as in 16x32")


def parse_text(path: str, text: str) -> Any:
    """Return the value of a field that is given as a text, as on a command line or in a sweep, after checking it.

    Raises:
      UserError: If the text is no value of the field's type, or if the value is not allowed.
    """
    kind: Any = check_key(path).type
    value: Any
    try:
        if kind is bool:
            value = {"true": True, "false": False}[text.lower()]
        elif kind in (int, float, str):
            value = kind(text)
        else:
            value = tuple(int(item) for item in re.split("[x,]", text.strip("() ").removesuffix(",")))
    except (ValueError, KeyError):
        raise UserError(f"{path} is {text!r}; it must be {_in_words(kind)}") from None
    return checked_value(path, value)


def _typed(path: str, kind: Any, value: Any) -> Any:
    """Return the value in the field's type, also from NumPy's numbers.

    Whole numbers become floats, sequences of whole numbers become tuples, and of a text, words with commas between.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
    if kind in (int, str, bool) and type(value) is kind:
        return value
    if kind == tuple[int, ...] and isinstance(value, Iterable) and not isinstance(value, str):
        items = tuple(item.item() if isinstance(item, np.integer) else item for item in value)
        if all(type(item) is int for item in items):
            return items
    if kind is str and isinstance(value, list | tuple) and all(isinstance(item, str | int | float) for item in value):
        return ",".join(map(str, value))
    shown = " ".join(repr(value).split())  # the text of a ConfigDict has several lines
    raise UserError(f"{path} is {shown}; it must be {_in_words(kind)}")


def resolve(config: ConfigDict) -> Experiment:
    """Check a configuration and return it as frozen dataclasses.

    Raises:
      UserError: If a field is unknown, has a wrong type or is out of bounds, or if fields contradict each other;
        if a file of the field `use` cannot be imported.
    """

    import_used(config)

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
                values[name] = _checked(prefix + name, field, tree[name])
        return kind(**values)

    experiment: Experiment = section(schema(), config, "")
    experiment = _movable(experiment)
    check_together(experiment)
    return experiment


def _movable(experiment: Experiment) -> Experiment:
    """Return a configuration whose rule, knowledge and world go together.

    If they do not, as where a world is set and only the sweep names rules that move clients in it, they are those of
    the sweep's first point. A sweep that names none leaves them as they are, and the checks refuse them.
    """
    fields = ("network.mobility", "network.world", "motion.knowledge")
    with contextlib.suppress(UserError):
        MOBILITIES.form(movement_of(experiment))
        return experiment
    with contextlib.suppress(UserError):  # what is wrong with a sweep is said where it is read
        axes = split_axes(experiment.sweep).items()
        first = dict(pair for paths, values in axes for pair in zip(paths, values[0]) if pair[0] in fields)
        return replace_all(experiment, {path: checked_value(path, text) for path, text in first.items()})
    return experiment


def replace_all(experiment: Experiment, values: Mapping[str, Any]) -> Experiment:
    """Return a copy of the configuration with other values in some fields, which are given by path."""
    changed: dict[str, Any] = {}
    of_sections = defaultdict[str, dict[str, Any]](dict)
    for path, value in values.items():
        head, _, rest = path.partition(".")
        (of_sections[head] if rest else changed)[rest or head] = value
    for head, fields in of_sections.items():
        changed[head] = dataclasses.replace(getattr(experiment, head), **fields)
    return dataclasses.replace(experiment, **changed)


def as_config(config: Config) -> ConfigDict:
    """Convert the argument ``config`` of `mdfl_jax.run` to a ConfigDict.

    Raises:
      UserError: for an unknown key or a wrong value, or as `read_file`.
    """
    if isinstance(config, ConfigDict):
        return config
    if isinstance(config, str | Path):
        return read_file(config)
    if not isinstance(config, Mapping):
        raise UserError(f"config is {config!r}; it must be a dict of fields, a ConfigDict, or the path of a file")
    import_used(config)
    found = default_config()
    for path, value in flat(config).items():  # its keys may be dotted paths already
        _set(found, path, checked_value(path, value))
    return found


def set_field(config: ConfigDict, path: str, text: str) -> None:
    """Set a field of a configuration, in place, to a value that is given as a text.

    Raises:
      UserError: for an unknown field or a wrong value.
    """
    with config.unlocked():
        _set(config, path, parse_text(path, text))


def _set(config: ConfigDict, path: str, value: Any) -> None:
    *sections, name = path.split(".")
    for section in sections:
        config = config[section]
    config[name] = value


def read_file(path: str | Path) -> ConfigDict:
    """Return the configuration that the function get_config of a file makes.

    The file can import the shipped ones, as in ``from configs import digits``, and the files of the current folder.

    Args:
      path: the path, with :ARGUMENT for get_config or without.

    Raises:
      UserError: for a missing file, a file without a function get_config, or if it returns no configuration.
      Exception: whatever the file raises.
    """
    file, _, argument = str(path).partition(":")
    with errors_about(f"config {file!r}"):
        check_file(file, CODE)
    above = str(folder().parent)
    if Path(file).resolve().parent == folder():  # no other folder called configs comes before
        sys.path.insert(0, above)
    elif above not in sys.path:
        sys.path.append(above)
    sys.path.insert(0, os.getcwd())  # as python -m does
    try:
        made = runpy.run_path(file)
        if "get_config" not in made:
            raise UserError(
                f"config {file!r}: it has no function get_config, which returns the configuration; a file that only "
                f"registers entries is given by --use={file}"
            )
        config = made["get_config"](*filter(None, [argument]))
    except (AttributeError, KeyError) as error:
        if alike := _ALIKE.search(str(error)):
            line = f"unknown config key {alike[2]!r} (did you mean {alike[1]!r}?)"
        elif absent := _ABSENT.search(str(error)):
            line = unknown_name("config key", absent[1], all_fields())
        else:
            raise
        raise UserError(f"{place(error) or file}: {line}") from error
    finally:
        sys.path.remove(os.getcwd())
    if isinstance(config, ConfigDict):
        import_used(config)
        return config
    if isinstance(config, Mapping):
        return as_config(config)
    raise UserError(f"config {file!r}: get_config() returned {config!r}; it must return a ConfigDict")


def folder() -> Path:
    """Return the folder of the shipped config files.

    It is ``configs/`` of the checkout, also for an editable installation; else ``mdfl_jax/shipped/configs/``, which
    setup.py makes from it.
    """
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent
    if (checkout / "setup.py").is_file() and (checkout / "configs" / "__init__.py").is_file():
        return checkout / "configs"
    return package / "shipped" / "configs"


def study_names() -> list[str]:
    """Return the names of the shipped studies, which are those of their files."""
    return sorted(path.stem for path in folder().glob("*.py") if path.stem != "__init__")


def find_config(word: str) -> str:
    """Return the config file of a word: the name of a shipped study, or a path, each with :ARGUMENT or without.

    Raises:
      UserError: for an unknown name or a missing file; the message suggests the most similar shipped study.
    """
    name, colon, argument = word.partition(":")
    if os.path.exists(name) and not os.path.isdir(name):
        return word
    if name in study_names():
        return str(folder() / f"{name}.py") + colon + argument
    stem = Path(name).stem
    near = f"the shipped study is named {stem}" if stem in study_names() else unknown_name("study", stem, study_names())
    raise UserError(f"--config={word}: there is no such file; {near}; a file is given by its path, as in ./my_study.py")


def used_files(text: str) -> list[str]:
    """Parse the field `use`: paths, separated by commas.

    >>> used_files("my_rule.py, ../rules/other.py")
    ['my_rule.py', '../rules/other.py']
    """
    return [path.strip() for path in text.split(",") if path.strip()]


def import_used(config: Mapping[str, Any] | ConfigDict) -> None:
    """Import the files that a configuration names in its field `use`, in their order.

    Args:
      config: the configuration, or any mapping with the fields of one.

    Raises:
      UserError: if the field is no text, if there is no such file, or if a file raises an error.
    """
    text = config.get("use", "") if isinstance(config, Mapping | ConfigDict) else ""
    if not isinstance(text, str):
        raise UserError(f"use is {text!r}; it must be a text, the paths of files separated by commas")
    for path in used_files(text):
        import_given(path)


def add_used_files(config: ConfigDict | dict[str, Any], files: Iterable[str]) -> None:
    """Add files to the field `use` of a configuration, in place. Files that it names already stay where they are."""
    if added := list(files):
        text = ",".join(dict.fromkeys([*used_files(config.get("use", "")), *added]))
        with config.unlocked() if isinstance(config, ConfigDict) else contextlib.nullcontext():
            config["use"] = text
