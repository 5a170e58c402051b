"""Config files: where the shipped ones are, in a checkout and in an installed package, and what one is made into."""

import os
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ml_collections import ConfigDict

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
    """Return the value of --config for a word: the name of a shipped study, or a path, each with :ARGUMENT or without.

    Args:
      word: the word. With a slash or with the ending .py it is a path.

    Raises:
      UserError: for an unknown name; the message suggests the most similar one.
    """
    name, colon, argument = word.partition(":")
    if name.endswith(".py") or os.sep in name:
        return word
    if name not in names():
        raise UserError(f"{unknown_name('study', name, names())}; a file is given by its path, as in ./{name}.py")
    return str(folder() / f"{name}.py") + colon + argument


def make_importable(config: str = "") -> None:
    """Let config files import the shipped ones, as in ``from configs import digits``.

    Args:
      config: the value of --config. If it is a shipped file, no other folder called ``configs`` comes before.
    """
    above = str(folder().parent)
    if config and Path(config.partition(":")[0]).resolve().parent == folder():
        sys.path.insert(0, above)
    elif above not in sys.path:
        sys.path.append(above)


Config: TypeAlias = ConfigDict | Mapping[str, Any] | str | Path


def as_config(config: Config) -> ConfigDict:
    """Convert the argument ``config`` of `run` to a ConfigDict.

    Raises:
      UserError: for a missing file, a file without a function get_config, an unknown key or a wrong value.
    """
    from mdfl_jax.config import config_files
    from mdfl_jax.config.field import flat
    from mdfl_jax.config.resolve import check_value, completed, default_config
    from mdfl_jax.config.use import import_used

    if isinstance(config, ConfigDict):
        return config
    if isinstance(config, str | Path):
        path, _, argument = str(config).partition(":")
        config_files.make_importable(path)
        if not os.path.isfile(path):
            raise UserError(f"config {path!r}: there is no such file")
        sys.path.insert(0, os.getcwd())  # as python -m does
        try:
            made = runpy.run_path(path)
        finally:
            sys.path.remove(os.getcwd())
        if "get_config" not in made:
            raise UserError(f"config {path!r}: it has no function get_config")
        return completed(made["get_config"](*filter(None, [argument])))
    import_used(config)
    found = default_config()
    for path, value in flat(config).items():  # its keys may be dotted paths already
        value = check_value(path, value)
        *sections, name = path.split(".")
        (found[sections[0]] if sections else found)[name] = value
    return found
