"""The panels of a report. Each panel is one declaration: what it shows, its caption and when it applies.

To add one, decorate a function in any file that the config file imports. What it returns is drawn on the page and in
figures/final_bits.png and .pdf, and the numbers behind it are in figures/final_bits.csv:

    from mdfl_jax.report.picture import BAR, Picture, Plot, Scale, Series
    from mdfl_jax.report.registry import figure

    @figure("final_bits", caption=lambda study: "Megabits that a client of each point has sent.")
    def final_bits(study):
        sent = [point["bits_sent_per_client"] / 1e6 for point in study.points]
        bars = Series("sent", "ink", range(len(sent)), sent, mark=BAR, thick=0.6)
        return Picture([Plot("", Scale("point"), Scale("megabits"), [bars], rows=study.labels)], size=(7, 3))

The function may return a Matplotlib figure instead, which the page shows as a picture. With `panel` it returns a
`Chart`, which the page alone draws.
"""

import base64
import functools
import inspect
import json
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from matplotlib.figure import Figure

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.registry import Registry, caller
from mdfl_jax.report.picture import Picture
from mdfl_jax.report.read import ReportData, kept

Make = TypeVar("Make", bound=Callable[..., "Chart"])


class Chart(NamedTuple):
    """What the page needs to draw a panel.

    Attributes:
      kind: the name of the function that draws it: "plotly", or one that a script of `mdfl_jax/report/assets` registers
        with `mdfl.register`.
      data: the input of this function, a tree of dictionaries, lists, texts, numbers and NumPy arrays. For "plotly" it
        has "traces" and "layout", as plotly.js takes them; colours and fonts of the page are added.
    """

    kind: str
    data: dict[str, Any]


def _always(_: ReportData) -> bool:
    return True


def _check_takes_a_study(field: str, function: Any) -> None:
    """Check that a function of a figure can be called with one argument: it is called only after the study.

    Raises:
      UserError: if it cannot. Whoever imports the user's file adds its line to the message.
    """
    if not callable(function):
        raise UserError(f"the {field} of a figure is {function!r}; it must be a function of a study")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise UserError(f"the {field} of a figure is called with one argument, the study: {error}") from None
    except ValueError:  # a function of C, whose arguments Python does not know
        pass


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel of the report.

    Attributes:
      title: the heading above it on the page.
      caption: (ReportData) -> the caption, in whole sentences.
      applies: (ReportData) -> whether the study has recorded the values that the panel shows.
      place: a number that determines the order of the panels on the page. Panels with the same number are in the order
        of their registration.
      draw: (ReportData) -> Figure, for files; None for a panel that is on the page only. It is called only if
        ``applies`` returns True, and so are ``chart`` and ``numbers``.
      chart: (ReportData) -> Chart, for the page; None, or if it returns None: the page shows the figure as a picture.
      numbers: (ReportData) -> the numbers behind the figure, rows of a table with the header first; None: none.
    """

    title: str
    caption: Callable[[ReportData], str]
    applies: Callable[[ReportData], bool] = _always
    place: int = 100
    draw: Callable[[ReportData], Figure] | None = None
    chart: Callable[[ReportData], Chart | None] | None = None
    numbers: Callable[[ReportData], Sequence[Sequence[Any]] | None] | None = None

    def __post_init__(self) -> None:
        for field in ("draw", "chart", "caption", "applies", "numbers"):
            if getattr(self, field) is not None:
                _check_takes_a_study(field, getattr(self, field))
        # The registry reads the description from __doc__, so take it and the module from the decorated function.
        for attribute in ("__module__", "__doc__"):
            object.__setattr__(self, attribute, getattr(self.draw or self.chart, attribute, None))


FIGURES: Registry[Panel] = Registry("figure", home="mdfl_jax.report.panels")


def figure(
    name: str,
    *,
    caption: Callable[..., str],
    applies: Callable[[ReportData], bool] = _always,
    place: int = 100,
    title: str = "",
    chart: Callable[..., Chart] | None = None,
    numbers: Callable[..., Sequence[Sequence[Any]]] | None = None,
    of: Callable[[ReportData], Any] | None = None,
) -> Callable[[Callable[..., Picture | Figure]], Callable[..., Figure]]:
    """Return a decorator that registers what a function returns, a `Picture` or a Matplotlib figure, as a panel.

    Args:
      name: the name of the figure's files, and its id on the page.
      caption, applies, place: as in `Panel`.
      title: as in `Panel`; by default the name in words.
      chart: as in `Panel`, where the page shows something else than the picture.
      numbers: as in `Panel`; a picture has its own.
      of: (ReportData) -> what the panel shows, made once for a study. With ``of``, all other functions but ``applies``
        take the study and what it shows: (study, shown). Without ``applies`` the panel applies if there is something;
        give a faster test if making it takes long.

    Returns:
      The decorator. The decorated function draws the Matplotlib figure.

    Raises:
      UserError: for a name that a figure of another file has (raised when the decorator is applied).
    """

    def add(show: Callable[..., Picture | Figure]) -> Callable[..., Figure]:
        made, *others = _of_study((show, caption, chart, numbers), of)
        when = applies if of is None or applies is not _always else lambda study: bool(kept(of)(study))
        draw, on_page, behind = _of_picture(made)
        panel = Panel(title or _in_words(name), others[0], when, place, draw, others[1] or on_page, others[2] or behind)
        FIGURES.register(name, origin=caller())(panel)
        return draw

    return add


def _of_picture(show: Callable[[ReportData], Picture | Figure]) -> tuple[Any, Any, Any]:
    """Return the functions of a panel that draw what ``show`` returns, put it on the page, and give its numbers."""

    @functools.wraps(show)
    def draw(study: ReportData) -> Figure:
        shown = show(study)
        return shown.figure() if isinstance(shown, Picture) else shown

    def chart(study: ReportData) -> Chart | None:
        shown = show(study)
        return Chart("multiples", shown.on_page()) if isinstance(shown, Picture) else None

    def numbers(study: ReportData) -> Sequence[Sequence[Any]] | None:
        shown = show(study)
        return shown.numbers() if isinstance(shown, Picture) else None

    return draw, chart, numbers


def panel(
    name: str,
    *,
    caption: Callable[[ReportData], str],
    applies: Callable[[ReportData], bool] = _always,
    place: int = 100,
    title: str = "",
    draw: Callable[[ReportData], Figure] | None = None,
) -> Callable[[Make], Make]:
    """Return a decorator that registers a function that makes a `Chart` as a panel of the page.

    Args:
      name, caption, applies, place, title: as in `figure`.
      draw: the same picture as a figure for files, as in `Panel`.

    Raises:
      UserError: as `figure`.
    """

    def add(chart: Make) -> Make:
        FIGURES.register(name, origin=caller())(Panel(title or _in_words(name), caption, applies, place, draw, chart))
        return chart

    return add


def _of_study(functions: Sequence[Any], of: Callable[[ReportData], Any] | None) -> list[Any]:
    """Return functions (study, shown) as functions of the study alone; ``shown`` is what ``of`` makes of it."""
    if of is None:
        return list(functions)
    shown = kept(of)

    def bound(function: Callable[..., Any]) -> Callable[[ReportData], Any]:
        def called(study: ReportData) -> Any:
            return function(study, shown(study))

        for attribute in ("__module__", "__name__", "__doc__"):
            setattr(called, attribute, getattr(function, attribute))
        return called

    return [function and bound(function) for function in functions]


def _in_words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def in_order() -> dict[str, Panel]:
    """Return the panels by name, in their order on the page."""
    found = {name: FIGURES[name] for name in FIGURES.as_registered()}
    return dict(sorted(found.items(), key=lambda item: item[1].place))


def drawn_in_order() -> dict[str, Callable[[ReportData], Figure]]:
    """Return the functions that draw figures for files, by name, in the same order."""
    return {name: panel.draw for name, panel in in_order().items() if panel.draw}


LEVELS, MISSING = 65_534, 65_535  # of numbers stored in 2 bytes: the largest one, and what stands for NaN
_TYPES = {"f8": "f4", "i8": "i4", "u8": "u4", "b1": "u1", "f2": "f4"}  # JavaScript has typed arrays of the others


def encode_array(array: np.ndarray) -> dict[str, Any]:
    """Return an array as {"$": type, "shape": [...], "data": base64 of its compressed bytes, little-endian}.

    Numbers of 8 bytes are stored in 4, since a reader sees at most six digits of them.
    """
    kind = array.dtype.str[1:]
    stored = np.ascontiguousarray(array, np.dtype("<" + _TYPES.get(kind, kind)))
    data = base64.b64encode(zlib.compress(stored.tobytes(), 6)).decode("ascii")
    return {"$": stored.dtype.str[1:], "shape": list(array.shape), "data": data}


def dumps(tree: Any) -> str:
    """Return a tree as JSON text that is safe inside a <script> element: no text of a study can end the element.

    >>> dumps({"name": "</script>", "lowest": float("-inf")})
    '{"name":"\\\\u003c/script>","lowest":null}'
    """
    return json.dumps(_plain(tree), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return encode_array(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): _plain(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
