"""The field `use` of a configuration: the user's own files, which are imported before names are looked up."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.own_files import import_file


def files_of(text: str) -> list[str]:
    """Parses the field `use`: paths, separated by commas.

    >>> files_of("my_rule.py, ../rules/other.py")
    ['my_rule.py', '../rules/other.py']
    """
    return [path.strip() for path in text.split(",") if path.strip()]


def import_used(config: Mapping[str, Any] | ConfigDict, more: Iterable[str] = ()) -> None:
    """Imports the files that a configuration names in its field `use`, in their order.

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
    """Adds files to the field `use` of a configuration, in place. Files that it names already stay where they are."""
    if added := list(files):
        text = ",".join(dict.fromkeys([*files_of(config.get("use", "")), *added]))
        with config.unlocked() if isinstance(config, ConfigDict) else contextlib.nullcontext():
            config["use"] = text


def completed(config: Any) -> Any:
    """Imports the files that a configuration uses, and adds the numbers of their members to it, in place.

    A config file calls `default_config` before these files are imported, so that the tree lacks these numbers.

    Args:
      config: what a config file's get_config has returned; what is no ConfigDict is returned as it is.

    Raises:
      UserError: as `import_used`.
    """
    from mdfl_jax.config.resolve import default_config

    if not isinstance(config, ConfigDict) or not config.get("use", ""):
        return config
    import_used(config)
    with config.unlocked():
        for section, fields in default_config().items():
            if isinstance(fields, ConfigDict) and isinstance(config.get(section), ConfigDict):
                for name in fields:
                    if name not in config[section]:
                        config[section][name] = fields.get_ref(name)
    return config
