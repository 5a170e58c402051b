"""Declares a field of a configuration section."""

import dataclasses
from typing import Any


def field(default: Any, doc: str, **rules: Any) -> Any:
    """Declares a field with its rules: at_least, above, at_most, below, odd, finite, traced, names and file.

    ``names`` are the allowed names, or a function that returns them. ``file=True`` says that the text names a file or a
    folder that the study reads.
    """
    return dataclasses.field(default=default, metadata={"doc": doc, **rules})
