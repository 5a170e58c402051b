"""Declares a field of a configuration section."""

import dataclasses
from collections.abc import Mapping
from typing import Any


def field(default: Any, doc: str, **rules: Any) -> Any:
    """Declare a field with its rules: at_least, above, at_most, below, odd, finite, traced, name, file and
    in_runs.

    ``names`` are the allowed names, or a function that returns them. ``file=True`` says that the text names a file or a
    folder that the study reads. ``in_runs=False`` says that no run depends on the field: a finished study takes another
    value without running again.
    """
    return dataclasses.field(default=default, metadata={"doc": doc, **rules})


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of nested dictionaries by dotted path.

    >>> flat({"rounds": 4, "network": {"radius": 3.0}})
    {'rounds': 4, 'network.radius': 3.0}
    """
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found
