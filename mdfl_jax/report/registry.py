"""The figures of a report: each is one declaration, with what it says and when there is one.

A figure of one's own is a decorated function in any file that the config file imports:

    from matplotlib.figure import Figure

    from mdfl_jax.report.registry import figure

    @figure("final_bits", caption=lambda run: "Megabits that a client of each point has sent.")
    def final_bits(run):
        drawn = Figure(figsize=(7, 3))
        sent = [point["bits_sent_per_client"] / 1e6 for point in run.points]
        drawn.subplots().barh([point["id"] for point in run.points], sent)
        return drawn

It is drawn into figures/final_bits.png and .pdf, and stands in report.html behind the others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from matplotlib.figure import Figure

from mdfl_jax.registry import Registry
from mdfl_jax.report.read import Run

Draw = TypeVar("Draw", bound=Callable[[Run], Figure])


def _always(_: Run) -> bool:
    return True


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure of the report.

    Attributes:
      draw: (Run) -> Figure, where ``applies`` says that there is one.
      caption: (Run) -> what it shows, in whole sentences.
      applies: (Run) -> whether the run has recorded what it shows.
      place: figures stand on the page in this order; those of one place in the order of their registration.
    """

    draw: Callable[[Run], Figure]
    caption: Callable[[Run], str]
    applies: Callable[[Run], bool] = _always
    place: int = 100

    def __post_init__(self) -> None:
        # As a decorated function has them, so that the registry tells whose it is.
        for attribute in ("__module__", "__doc__"):
            object.__setattr__(self, attribute, getattr(self.draw, attribute, None))


FIGURES: Registry[Picture] = Registry("figure")


def figure(
    name: str, *, caption: Callable[[Run], str], applies: Callable[[Run], bool] = _always, place: int = 100
) -> Callable[[Draw], Draw]:
    """Decorator: makes a figure of the report of the function that draws it.

    Args:
      name: of its files and of its place on the page.
      caption: as `Picture.caption`.
      applies: as `Picture.applies`.
      place: as `Picture.place`.

    Raises:
      UserError: for a name that a figure of another file has.
    """

    def add(draw: Draw) -> Draw:
        FIGURES.register(name)(Picture(draw, caption, applies, place))
        return draw

    return add


def in_order() -> dict[str, Picture]:
    """The figures in the order of the page, by name."""
    found = {name: FIGURES[name] for name in FIGURES.as_registered()}
    return dict(sorted(found.items(), key=lambda item: item[1].place))
