"""The texts of a sweep, as 'network.mobility=static,dcm; data.alpha=0.05,0.1', and of the labels of its values."""

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

from mdfl_jax.core.errors import UserError

LONG = ": "  # separates the two parts of a label: 'DCM: distribution-aware cluster-centre movement'
_PATH = re.compile(r"[A-Za-z]\w*(\.\w+)+")
TextAxes = dict[tuple[str, ...], list[tuple[str, ...]]]


def split_axes(sweep: str) -> TextAxes:
    """Split the text of a sweep into its axes, without reading the values.

    Fields joined by '+' form one axis and change together.

    Returns:
      {(field, ...): [(text, ...), ...]}: for each value of an axis, a text for each of its fields.

    Raises:
      UserError: If the text does not have this form, or has a field twice.

    >>> split_axes("rounds=1,2; network.radius+network.mobility=1+dcm,2+dam")
    {('rounds',): [('1',), ('2',)], ('network.radius', 'network.mobility'): [('1', 'dcm'), ('2', 'dam')]}
    """
    axes: TextAxes = {}
    for axis in filter(None, map(str.strip, sweep.split(";"))):
        fields, equals, values = axis.partition("=")
        if not equals or not values.strip():
            raise UserError(f"sweep: {axis!r} is not of the form field=value,value")
        paths = tuple(map(str.strip, fields.split("+")))
        for path in paths:
            if [*itertools.chain(*axes), *paths].count(path) > 1:
                raise UserError(f"sweep: {path} is given twice")
        axes[paths] = [split_tied(paths, value) for value in values.split(",")]
    if sweep.strip() and not axes:
        raise UserError(f"sweep is {sweep!r}; it must be of the form field=value,value; field=value,value")
    return axes


def split_tied(paths: tuple[str, ...], text: str, of: str = "sweep") -> tuple[str, ...]:
    """Split one value of an axis into a text for each field. With one field, '+' is part of the value, as in 1e+3.

    Raises:
      UserError: If the number of texts is not the number of fields.
    """
    texts = tuple(map(str.strip, text.split("+"))) if len(paths) > 1 else (text.strip(),)
    if len(texts) != len(paths):
        raise UserError(f"{of}: {'+'.join(paths)} takes {len(paths)} values tied by '+', not {text.strip()!r}")
    return texts


def tied_with(sweep: str, path: str) -> set[str]:
    """Return the fields that a sweep joins to a field by '+', with the field itself.

    >>> sorted(tied_with("rounds=1,2; network.mobility+motion.knowledge=dcm+oracle,dcm+met", "network.mobility"))
    ['motion.knowledge', 'network.mobility']
    """
    return next((set(paths) for paths in split_axes(sweep) if path in paths), {path})


def labels_of(text: str) -> dict[str, str]:
    """Split the text of `labels` into the names for tables and figures, by the value or field that they replace.

    A value of one field only is given as field=value.

    Raises:
      UserError: If the text does not have this form, or has a key twice.

    >>> labels_of("dpsgd=D-PSGD; network.radius=radio range; network.radius=3=near; dcm=DCM: cluster centres")
    {'dpsgd': 'D-PSGD', 'network.radius': 'radio range', 'network.radius=3': 'near', 'dcm': 'DCM: cluster centres'}
    """
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        value, equals, name = map(str.strip, part.partition("="))
        if _PATH.fullmatch(value) and "=" in name:
            text, _, name = map(str.strip, name.partition("="))
            value = f"{value}={text}" if text else ""
        if not equals or not value or not name:
            raise UserError(f"labels: {part!r} is not of the form value=name; several are divided by ';'")
        short = name.partition(LONG)[0]
        if value in found or short in (known.partition(LONG)[0] for known in found.values()):
            raise UserError(f"labels: {value if value in found else short!r} is there twice")
        found[value] = name
    return found


def labels_for(labels: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the names of a field's values; a name for this field replaces a name for all fields.

    >>> labels_for({"3": "three", "network.radius=3": "near"}, "network.radius")
    {'3': 'near'}
    """
    own = {key.removeprefix(f"{path}="): name for key, name in labels.items() if key.startswith(f"{path}=")}
    return {key: name for key, name in labels.items() if "=" not in key} | own


def show(value: Any) -> str:
    """Format a configuration value for tables, legends and `labels`.

    >>> [show(v) for v in (None, 0.05, 3.0, float("inf"), "dam", True, [1, 2])]
    ['-', '0.05', '3', 'inf', 'dam', 'true', '[1, 2]']
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value or value != value else repr(value)
    return json.dumps(value)
