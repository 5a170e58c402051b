"""The sweep points of a study as a grid: the values of its axes in order, and the points of each part of the grid."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mdfl_jax.report.read import Run
from mdfl_jax.report.settings import Axis, point_labels, spaced

MOST_PARTS = 12  # more parts of a grid are not drawn
WIDE = 20  # numbers are on a logarithmic axis if the largest is at least so many times the smallest


def is_wide(numbers: Sequence[float]) -> bool:
    """Tell whether numbers are better seen on a logarithmic axis; it has no place for infinity."""
    return bool(numbers) and min(numbers) > 0 and WIDE * min(numbers) <= max(numbers) < math.inf


@dataclass(frozen=True)
class Scale:
    """A varying setting with its values in order: numbers by size, other values as the study lists them.

    Attributes:
      axis: the setting.
      texts: the printed values.
      at: the index in ``texts`` of the value of each sweep point.
      numbers: the values as numbers, infinity included; None if they are not all numbers.
    """

    axis: Axis
    texts: tuple[str, ...]
    at: tuple[int, ...]
    numbers: tuple[float, ...] | None

    @property
    def name(self) -> str:
        """The name of the setting in words."""
        return spaced(self.axis.name)

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite numbers, so that their distances mean something."""
        return self.numbers is not None and all(map(math.isfinite, self.numbers))

    @property
    def is_logarithmic(self) -> bool:
        """Whether the values are better seen on a logarithmic axis."""
        return self.numbers is not None and is_wide(self.numbers)

    @property
    def places(self) -> tuple[float, ...]:
        """The place of each value on an axis: the number, or the index where a value has no place of its own."""
        return self.numbers if self.numbers and self.is_finite else tuple(map(float, range(len(self.texts))))

    def label(self, index: int) -> str:
        """Return the name of one value: a text is used as it is, and a number is written as `radius = 3`."""
        return f"{self.name} = {self.texts[index]}" if self.numbers else spaced(self.texts[index])


def scales(run: Run) -> list[Scale]:
    """Return the varying settings of a study with their values in order."""
    return [_scale(axis) for axis in run.axes]


def _scale(axis: Axis) -> Scale:
    numbers = axis.numbers
    texts = tuple(numbers or dict.fromkeys(axis.texts))
    return Scale(axis, texts, tuple(map(texts.index, axis.texts)), tuple(numbers.values()) or None)


def parts(run: Run, others: Sequence[Scale]) -> dict[str, list[int]]:
    """Group the sweep points by their values of some settings.

    Of more than `MOST_PARTS` groups, evenly chosen ones are returned, the first and the last among them.

    Returns:
      The indices of the sweep points by the label of the group; one group with the label "" if there are no settings.
    """
    if not others:
        return {"": list(range(len(run.points)))}
    order = sorted(range(len(run.points)), key=lambda p: [scale.at[p] for scale in others])
    labels = point_labels(run.points, [scale.axis for scale in others])
    found: dict[str, list[int]] = {}
    for p in order:
        found.setdefault(spaced(labels[p]), []).append(p)
    if len(found) <= MOST_PARTS:
        return found
    names = list(found)
    kept = [names[round(i * (len(names) - 1) / (MOST_PARTS - 1))] for i in range(MOST_PARTS)]
    return {name: found[name] for name in kept}


def left_out(run: Run, others: Sequence[Scale]) -> str:
    """Return a sentence for a caption if `parts` does not return all groups, else an empty text."""
    count = len({tuple(scale.at[p] for scale in others) for p in range(len(run.points))})
    return f" Shown are {MOST_PARTS} of {count} combinations of the other settings." if count > MOST_PARTS else ""
