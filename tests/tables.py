"""Tables of cases as text: "field=text | field=text => what is expected"; "& field=text" is for all lines below it."""

from collections.abc import Iterator, Mapping

import pytest
from ml_collections import ConfigDict

from mdfl_jax.config.resolve import set_field


def cases(text: str, name: str = "") -> Iterator[object]:
    """Yield the cases of a table: (the texts of fields by path, what is expected)."""
    shared: list[str] = []
    for line in text.strip().splitlines():
        if line.startswith("& "):
            shared = line[2:].split(" | ")
            continue
        given, _, expected = line.partition(" => ")
        fields = dict(part.split("=", 1) for part in (*shared, *given.split(" | ")))
        yield pytest.param(fields, expected, id=f"{name}: {given}" if name else given)


def with_fields(config: ConfigDict, fields: Mapping[str, str]) -> ConfigDict:
    """Set fields of a configuration, in place, to values that are given as on a command line; return it."""
    for path, text in fields.items():
        set_field(config, path, text)
    return config
