"""The figures of a report. Each figure is one declaration: how it is drawn, its caption and when it applies.

To add a figure, decorate a function in any file that the config file imports:

    from matplotlib.figure import Figure

    from mdfl_jax.report.registry import figure

    @figure("final_bits", caption=lambda run: "Megabits that a client of each point has sent.")
    def final_bits(run):
        drawn = Figure(figsize=(7, 3))
        sent = [point["bits_sent_per_client"] / 1e6 for point in run.points]
        drawn.subplots().barh([point["id"] for point in run.points], sent)
        return drawn

The figure is written to figures/final_bits.png and .pdf, and report.html shows it after the other figures.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from matplotlib.figure import Figure

from mdfl_jax.errors import UserError
from mdfl_jax.registry import Registry
from mdfl_jax.report.read import Run

Draw = TypeVar("Draw", bound=Callable[[Run], Figure])


def _always(_: Run) -> bool:
    return True


def _check_takes_a_run(field: str, function: Any) -> None:
    """Checks that a function of a figure can be called with one argument: it is called only after the study.

    Raises:
      UserError: if it cannot. Whoever imports the user's file adds its line to the message.
    """
    if not callable(function):
        raise UserError(f"the {field} of a figure is {function!r}; it must be a function of a Run")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise UserError(f"the {field} of a figure is called with one argument, the Run: {error}") from None
    except ValueError:  # a function of C, whose arguments Python does not know
        pass


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure of the report.

    Attributes:
      draw: (Run) -> Figure; it is called only if ``applies`` returns True.
      caption: (Run) -> the caption, in whole sentences.
      applies: (Run) -> whether the study has recorded the values that the figure shows.
      place: a number that determines the order of the figures on the page. Figures with the same number are in the
        order of their registration.
    """

    draw: Callable[[Run], Figure]
    caption: Callable[[Run], str]
    applies: Callable[[Run], bool] = _always
    place: int = 100

    def __post_init__(self) -> None:
        for field in ("draw", "caption", "applies"):
            _check_takes_a_run(field, getattr(self, field))
        # The registry reads the description from __doc__, so take it and the module from the decorated function.
        for attribute in ("__module__", "__doc__"):
            object.__setattr__(self, attribute, getattr(self.draw, attribute, None))


FIGURES: Registry[Picture] = Registry("figure")


def figure(
    name: str, *, caption: Callable[[Run], str], applies: Callable[[Run], bool] = _always, place: int = 100
) -> Callable[[Draw], Draw]:
    """Returns a decorator that registers a drawing function as a figure of the report.

    Args:
      name: the name of the figure's files, and its id on the page.
      caption: as in `Picture`.
      applies: as in `Picture`.
      place: as in `Picture`.

    Raises:
      UserError: for a name that a figure of another file has (raised when the decorator is applied).
    """

    def add(draw: Draw) -> Draw:
        FIGURES.register(name)(Picture(draw, caption, applies, place))
        return draw

    return add


def in_order() -> dict[str, Picture]:
    """Returns the figures by name, in their order on the page."""
    found = {name: FIGURES[name] for name in FIGURES.as_registered()}
    return dict(sorted(found.items(), key=lambda item: item[1].place))
