"""The studies that are shipped: where their config files are, in a checkout and in an installed package."""

import os
import sys
from pathlib import Path

from mdfl_jax.core.errors import UserError, unknown_name


def folder() -> Path:
    """Returns the folder of the shipped config files.

    It is ``configs/`` of the checkout, also for an editable installation; else ``mdfl_jax/shipped/configs/``, which
    setup.py makes from it.
    """
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent
    if (checkout / "setup.py").is_file() and (checkout / "configs" / "__init__.py").is_file():
        return checkout / "configs"
    return package / "shipped" / "configs"


def names() -> list[str]:
    """Returns the names of the shipped studies, which are those of their files."""
    return sorted(path.stem for path in folder().glob("*.py") if path.stem != "__init__")


def find(word: str) -> str:
    """Returns the value of --config for a word: the name of a shipped study, or a path, each with :ARGUMENT or without.

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
    """Lets config files import the shipped ones, as in ``from configs import digits``.

    Args:
      config: the value of --config. If it is a shipped file, no other folder called ``configs`` comes before.
    """
    above = str(folder().parent)
    if config and Path(config.partition(":")[0]).resolve().parent == folder():
        sys.path.insert(0, above)
    elif above not in sys.path:
        sys.path.append(above)
