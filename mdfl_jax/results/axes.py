"""The settings in which the sweep points of a study differ: their values and their printed names."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.sweep_text import LONG, labels_for, labels_of, show


@dataclass(frozen=True)
class Axis:
    """One setting that differs between the sweep points."""

    path: str  # "network.mobility"
    name: str  # "mobility"
    values: tuple[Any, ...]  # one for each sweep point
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)  # names of printed values

    @functools.cached_property
    def full_texts(self) -> tuple[str, ...]:
        """The printed values, of which the first one of each kind has the long form of its label."""
        printed = [show(value) for value in self.values]
        return tuple(
            self.labels[text] if text in self.labels and text not in printed[:p] else short
            for p, (text, short) in enumerate(zip(printed, self.texts))
        )

    @functools.cached_property
    def texts(self) -> tuple[str, ...]:
        """The printed values, one for each sweep point; of an empty one as 'no attack'."""
        printed = [show(value) for value in self.values]
        none = f"no {self.title}"
        return tuple(short(self.labels[text]) if text in self.labels else text or none for text in printed)

    @property
    def title(self) -> str:
        """The name in words."""
        return spaced(self.name)

    @functools.cached_property
    def distinct(self) -> tuple[str, ...]:
        """The different printed values in order: numbers by size, other values as the study lists them."""
        return tuple(self.numbers or dict.fromkeys(self.texts))

    @functools.cached_property
    def at(self) -> tuple[int, ...]:
        """The index in ``distinct`` of the value of each sweep point."""
        return tuple(map(self.distinct.index, self.texts))

    @functools.cached_property
    def numbers(self) -> dict[str, float]:
        """The values as numbers by their printed form, the smallest first; none if one of them is no number."""
        found = [(number, text) for text, x in zip(self.texts, self.values) if (number := as_number(x)) is not None]
        return {text: number for number, text in sorted(found)} if len(found) == len(self.values) else {}


def as_number(value: Any) -> float | None:
    """Return a configuration value as a number, or None if it is none. Files have infinity as a text.

    >>> [as_number(v) for v in (3, 0.5, "inf", True, "dam", None, float("nan"))]
    [3.0, 0.5, inf, None, None, None, None]
    """
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(value)


def sweep_axes(
    points: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None, labelled: bool = True
) -> list[Axis]:
    """Return the overrides that differ between sweep points, named by the last component of their path.

    The configuration's `labels` give values and settings other names, unless ``labelled`` is False.

    If two axes have the same last component, their names also contain the component before it. For `algorithm.name` the
    name is `algorithm`, since "name" alone is not informative. A sweep point without an override has the value of the
    resolved base configuration.

    Raises:
      UserError: if labels give two values of an axis one name.

    >>> points = [{"overrides": {"network.radius": r, "rounds": 9}} for r in (3.0, 5.0)]
    >>> [(axis.name, axis.texts) for axis in sweep_axes(points)]
    [('radius', ('3', '5'))]
    """
    paths = dict.fromkeys(path for point in points for path in point["overrides"])
    varying = {path: tuple(axis_value(point, path, config or {}) for point in points) for path in paths}
    varying = {path: values for path, values in varying.items() if len({show(value) for value in values}) > 1}
    last = {path: path.removesuffix(".name").rsplit(".", 1)[-1] for path in varying}
    taken = list(last.values())
    names = {p: ".".join(p.rsplit(".", 2)[-2:]) if taken.count(name) > 1 else name for p, name in last.items()}
    labels = labels_of((config or {}).get("labels") or "") if labelled else {}
    axes = [
        Axis(path, labels.get(path, names[path]), values, labels_for(labels, path)) for path, values in varying.items()
    ]
    for axis in axes:
        known: dict[str, str] = {}
        for value, text in zip(map(show, axis.values), axis.texts):
            if known.setdefault(text, value) != value:
                raise UserError(f"labels: {text!r} would stand for {known[text]} and for {value} of {axis.path}")
    return axes


def point_labels(points: Sequence[Mapping[str, Any]], axes: Sequence[Axis], full: bool = False) -> list[str]:
    """Return one label for each sweep point, made from its values of the axes.

    A text is used as it is; a number is written as `radius = 3`. Without axes, the label is the id of the sweep point.
    With ``full`` the first label of each value has its long form.
    """
    if not axes:
        return [str(point["id"]) for point in points]
    parts = [
        [
            text if isinstance(value, str) and as_number(value) is None else f"{axis.name} = {text}"
            for value, text in zip(axis.values, axis.full_texts if full else axis.texts)
        ]
        for axis in axes
    ]
    return [", ".join(label) for label in zip(*parts)]


def axis_value(point: Mapping[str, Any], path: str, config: Mapping[str, Any]) -> Any:
    """Return the value of a sweep point for a dotted path of the configuration, or None if it has none."""
    if path in point["overrides"]:
        return point["overrides"][path]
    node: Any = config
    for part in path.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return None
        node = node[part]
    return node


def is_attacked(points: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> bool:
    """Tell whether some sweep points have attackers; means over clients are then over the honest ones."""
    return any(axis_value(point, "attack.name", config) for point in points)


def spaced(name: str) -> str:
    """Return a name in its printed form, with spaces for underscores."""
    return name.replace("_", " ")


def short(label: str) -> str:
    """Return a label without its long form.

    >>> short("DCM: distribution-aware cluster-centre movement")
    'DCM'
    """
    return label.partition(LONG)[0]
