"""Config files: where the shipped ones are, in a checkout and in an installed package, and what one is made into."""

import os
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ml_collections import ConfigDict

from mdfl_jax.config.resolve import check_value, completed, default_config, import_used, parse_text
from mdfl_jax.config.sections import flat
from mdfl_jax.core.errors import UserError, unknown_name


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


def names() -> list[str]:
    """Return the names of the shipped studies, which are those of their files."""
    return sorted(path.stem for path in folder().glob("*.py") if path.stem != "__init__")


def find(word: str) -> str:
    """Return the config file of a word: the name of a shipped study, or a path, each with :ARGUMENT or without.

    Raises:
      UserError: for an unknown name or a missing file; the message suggests the most similar shipped study.
    """
    name, colon, argument = word.partition(":")
    if os.path.isfile(name):
        return word
    if name in names():
        return str(folder() / f"{name}.py") + colon + argument
    near = unknown_name("study", Path(name).stem, names())
    raise UserError(f"--config={word}: there is no such file; {near}; a file is given by its path, as in ./my_study.py")


Config: TypeAlias = ConfigDict | Mapping[str, Any] | str | Path


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
    if not os.path.isfile(file):
        raise UserError(f"config {file!r}: there is no such file")
    above = str(folder().parent)
    if Path(file).resolve().parent == folder():  # no other folder called configs comes before
        sys.path.insert(0, above)
    elif above not in sys.path:
        sys.path.append(above)
    sys.path.insert(0, os.getcwd())  # as python -m does
    try:
        made = runpy.run_path(file)
    finally:
        sys.path.remove(os.getcwd())
    if "get_config" not in made:
        raise UserError(f"config {file!r}: it has no function get_config")
    config = made["get_config"](*filter(None, [argument]))
    if isinstance(config, ConfigDict):
        return completed(config)
    if isinstance(config, Mapping):
        return as_config(config)
    raise UserError(f"config {file!r}: get_config() returned {config!r}; it must return a ConfigDict")


def as_config(config: Config) -> ConfigDict:
    """Convert the argument ``config`` of `mdfl_jax.run` to a ConfigDict.

    Raises:
      UserError: for an unknown key or a wrong value, or as `read_file`.
    """
    if isinstance(config, ConfigDict):
        return config
    if isinstance(config, str | Path):
        return read_file(config)
    import_used(config)
    found = default_config()
    for path, value in flat(config).items():  # its keys may be dotted paths already
        _set(found, path, check_value(path, value))
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
