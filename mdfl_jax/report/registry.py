"""The panels of a report. Each panel is one declaration: what it shows, its caption and when it applies.

To add one, decorate a function in any file that the config file imports. What it returns is drawn on the page and in
figures/final_bits.png and .pdf, and the numbers behind it are in figures/final_bits.csv:

    from mdfl_jax.report.picture import BAR, Picture, Plot, Scale, Series
    from mdfl_jax.report.registry import figure

    @figure("final_bits", caption=lambda study: "Megabits that a client of each point has sent.")
    def final_bits(study):
        sent = [point["bits_sent_per_client"] / 1e6 for point in study.outcomes]
        bars = Series("sent", "ink", range(len(sent)), sent, mark=BAR, thick=0.6)
        return Picture([Plot("", Scale("point"), Scale("megabits"), [bars], rows=study.labels)], size=(7, 3))

The function may return a Matplotlib figure instead, which the page shows as a picture. With `panel` it returns a
`Chart`, which the page alone draws.
"""

import base64
import functools
import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from matplotlib.figure import Figure

from mdfl_jax.core.registry import Registry, caller
from mdfl_jax.results.results import Results, kept

Make = TypeVar("Make", bound=Callable[..., "Chart"])


class Chart(NamedTuple):
    """What the page needs to draw a panel.

    Attributes:
      kind: the name of the function that draws it: "plotly", or one that a script of `mdfl_jax/report/assets` registers
        with `mdfl.register`; or "html", a part of the page without a script, whose data are {"html": its text}.
      data: the input of this function, a tree of dictionaries, lists, texts, numbers and NumPy arrays. For "plotly" it
        has "traces" and "layout", as plotly.js takes them; colours and fonts of the page are added.
    """

    kind: str
    data: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel of the report: the functions that its declaration gives (`figure`), and what they make of a study.

    Attributes:
      title: the heading above it on the page.
      place: a number that determines the order of the panels on the page. Panels with the same number are in the order
        of their registration.
      functions: by what they return: caption, draw, chart and numbers, of which some may be None.
      applies_to: (Results) -> whether the study has recorded what the panel shows; None: if ``of`` finds something.
      of: (Results) -> what the panel shows; None: the study alone is given to the functions.
    """

    title: str
    place: int
    functions: Mapping[str, Callable[..., Any] | None]
    applies_to: Callable[[Results], bool] | None = None
    of: Callable[[Results], Any] | None = None

    def __post_init__(self) -> None:
        # The registry reads the description from __doc__.
        object.__setattr__(self, "__doc__", (self.functions["draw"] or self.functions["chart"]).__doc__)

    @property
    def is_drawn(self) -> bool:
        """Whether there is a figure for files, and not the page alone."""
        return self.functions["draw"] is not None

    def applies(self, study: Results) -> bool:
        """Tell whether the study has recorded the values that the panel shows; the other methods are for this case."""
        if self.applies_to is not None:
            return bool(self.applies_to(study))
        return self.of is None or bool(kept(self.of)(study))

    def caption(self, study: Results) -> str:
        """Return the caption, in whole sentences."""
        return self._call("caption", study)

    def draw(self, study: Results) -> Figure:
        """Draw the figure for files."""
        shown = self._call("draw", study)
        return shown if isinstance(shown, Figure) else shown.figure()

    def chart(self, study: Results) -> Chart | None:
        """Return what the page draws; None: it shows the figure as a picture."""
        if self.functions["chart"]:
            return self._call("chart", study)
        shown = self._call("draw", study)
        return None if isinstance(shown, Figure) else Chart("multiples", shown.on_page())

    def numbers(self, study: Results) -> Sequence[Sequence[Any]] | None:
        """Return the numbers behind the figure, rows with the header first; None if it does not give them."""
        if self.functions["numbers"]:
            return self._call("numbers", study)
        shown = self._call("draw", study)
        return None if isinstance(shown, Figure) else shown.numbers()

    def _call(self, name: str, study: Results) -> Any:
        function = self.functions[name]
        assert function is not None
        return function(study, *((kept(self.of)(study),) if self.of else ()))


FIGURES: Registry[Panel] = Registry("figure", home="mdfl_jax.report.panels", contrib=("panels", "comparison"))
COMPARISONS: Registry[Callable[[Sequence[Path], str, str], Results]] = Registry("comparison", contrib="comparison")
"""What reads several studies as one: "studies", a function of their folders, the baseline and the x axis."""


def figure(
    name: str,
    *,
    caption: Callable[..., str],
    applies: Callable[[Results], bool] | None = None,
    place: int = 100,
    title: str = "",
    chart: Callable[..., Chart] | None = None,
    numbers: Callable[..., Sequence[Sequence[Any]]] | None = None,
    of: Callable[[Results], Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[[Results], Figure]]:
    """Return a decorator that registers what a function returns, a `Picture` or a Matplotlib figure, as a panel.

    Args:
      name: the name of the figure's files, and its id on the page.
      caption: (Results) -> the caption, in whole sentences.
      applies: (Results) -> whether the study has recorded the values that the panel shows.
      place: as in `Panel`.
      title: as in `Panel`; by default the name in words.
      chart: (Results) -> what the page shows in place of the picture.
      numbers: (Results) -> the rows of the CSV file, with the header first; a picture has its own.
      of: (Results) -> what the panel shows, made once for a study. With ``of``, all other functions but ``applies``
        take the study and what it shows: (study, shown). Without ``applies`` the panel applies if there is something;
        give a faster test if making it takes long.

    Returns:
      The decorator. The decorated function draws the Matplotlib figure.

    Raises:
      UserError: for a name that a figure of another file has (raised when the decorator is applied).
    """
    origin = caller()

    def add(draw: Callable[..., Any]) -> Callable[[Results], Figure]:
        functions = {"draw": draw, "caption": caption, "chart": chart, "numbers": numbers}
        made = Panel(title or _in_words(name), place, functions, applies, of)
        FIGURES.register(name, origin=origin)(made)
        return functools.wraps(draw)(lambda study: made.draw(study))

    return add


def panel(
    name: str,
    *,
    caption: Callable[[Results], str],
    applies: Callable[[Results], bool] | None = None,
    place: int = 100,
    title: str = "",
) -> Callable[[Make], Make]:
    """Return a decorator that registers a function that makes a `Chart` as a panel of the page alone.

    The arguments are those of `figure`.
    """
    origin = caller()

    def add(chart: Make) -> Make:
        functions = {"draw": None, "caption": caption, "chart": chart, "numbers": None}
        FIGURES.register(name, origin=origin)(Panel(title or _in_words(name), place, functions, applies))
        return chart

    return add


def _in_words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def panels_in_order() -> dict[str, Panel]:
    """Return the panels by name, in their order on the page."""
    found = {name: FIGURES[name] for name in FIGURES.as_registered()}
    return dict(sorted(found.items(), key=lambda item: item[1].place))


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


def script_json(tree: Any) -> str:
    """Return a tree as JSON text that is safe inside a <script> element: no text of a study can end the element.

    >>> script_json({"name": "</script>", "lowest": float("-inf")})
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
