"""The field `use` of a configuration: the user's own files, which are imported before names are looked up."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.own_files import import_file


def files_of(text: str) -> list[str]:
    """Parse the field `use`: paths, separated by commas.

    >>> files_of("my_rule.py, ../rules/other.py")
    ['my_rule.py', '../rules/other.py']
    """
    return [path.strip() for path in text.split(",") if path.strip()]


def import_used(config: Mapping[str, Any] | ConfigDict, more: Iterable[str] = ()) -> None:
    """Import the files that a configuration names in its field `use`, in their order.

    Args:
      config: the configuration, or any mapping with the fields of one.
      more: further files, which are imported first.

    Raises:
      UserError: if the field is no text, if there is no such file, or if a file raises an error.
    """
    text = config.get("use", "") if isinstance(config, Mapping | ConfigDict) else ""
    if not isinstance(text, str):
        raise UserError(f"use is {text!r}; it must be a text, the paths of files separated by commas")
    for path in (*more, *files_of(text)):
        import_file(path)


def with_files(config: ConfigDict | dict[str, Any], files: Iterable[str]) -> None:
    """Add files to the field `use` of a configuration, in place. Files that it names already stay where they are."""
    if added := list(files):
        text = ",".join(dict.fromkeys([*files_of(config.get("use", "")), *added]))
        with config.unlocked() if isinstance(config, ConfigDict) else contextlib.nullcontext():
            config["use"] = text
