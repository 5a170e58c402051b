"""The figures of a study in Python: curves of any metric, and the figures of the report."""

from collections.abc import Callable, Iterator
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.report import figures
from mdfl_jax.report.panels.curves import draw_mean
from mdfl_jax.report.read import ROUNDS, Run
from mdfl_jax.report.registry import FIGURES, drawn_in_order
from mdfl_jax.report.style import STYLE, looks, make_panels
from mdfl_jax.results.results import StudyResults, line_keys, per_run


class UnknownFigureError(UserError, AttributeError):
    """There is no figure of this name. It is an AttributeError too, as Python expects of a missing attribute."""


class Plots:
    """The figures of a study. Every figure of the report is a method: ``results.plot.final_accuracy()``.

    ``list(results.plot)`` has the names of the figures that apply to the study. A method takes ``x``, the x axis of the
    accuracy curves (`Results.report`), and returns a Matplotlib `Figure`, which has `savefig`.
    """

    def __init__(self, results: StudyResults, as_run: Callable[[str], Run]):
        self._results, self._as_run = results, as_run

    def __iter__(self) -> Iterator[str]:
        return iter(["curves", *figures.applying(self._as_run(""))])

    def __dir__(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        docs = {name: (FIGURES[name].__doc__ or "").split("\n")[0] for name in list(self)[1:]}
        lines = ["curves(metric='accuracy', x='round', ax=None): Draws a metric of every sweep point as a curve."]
        return "\n".join(["The figures of this study:", *lines, *(f"{name}(): {doc}" for name, doc in docs.items())])

    def __getattr__(self, name: str) -> Callable[..., Figure]:
        """Return the method that draws a figure of the report."""
        if name.startswith("_") or name not in drawn_in_order():
            raise UnknownFigureError(unknown_name("figure", name, ["curves", *drawn_in_order()]))

        def draw(x: str = "") -> Figure:
            return figures.draw(self._as_run(x), name)

        draw.__name__, draw.__doc__ = name, FIGURES[name].__doc__
        return draw

    def curves(self, metric: str = "accuracy", x: str = "round", ax: Any = None) -> Figure:
        """Draw a metric of every sweep point as a curve: the mean over the seeds and its 95 % Student-t interval.

        Args:
          metric: a metric with one number for each evaluation of a run, as in metrics.jsonl: 'consensus_distance', or
            'accuracy' (the mean over the clients), 'accuracy_min', ...
          x: the x axis: 'round', or such a metric, of which the mean over the seeds is taken: 'bits', 'messages', ...
          ax: the Matplotlib axes to draw into; None: a new figure.

        Returns:
          The figure.

        Raises:
          UserError: for a metric that is unknown or was not measured; the message lists the known ones.
        """
        if ax is not None:
            self._draw_curves(ax, metric, x)
            ax.legend()
            return ax.figure
        with matplotlib.style.context(["default", STYLE]):
            drawn, (axes,) = make_panels(1, 1, 7.2, 3.9)
            self._draw_curves(axes, metric, x)
            drawn.legend(loc="outside right upper", alignment="left")
        return drawn

    def _draw_curves(self, axes: Any, metric: str, x: str) -> None:
        results, run = self._results, self._as_run("")
        key, along = self._key(metric), None if x in ("round", ROUNDS) else self._key(x)
        for point, look in zip(run.points, looks(run)):
            of = [seed for seed in results.seeds if str(seed) not in point.get("divergence", {})] or results.seeds
            ran = [results.seeds.index(seed) for seed in of]  # a run that has diverged is in no mean
            values = per_run(results, point["id"], key)[ran] / self._scale(key)
            places = results.arrays["rounds"]
            if along is not None:
                places = per_run(results, point["id"], along)[ran].mean(axis=0) / self._scale(along)
            if not np.isnan(values).all():
                draw_mean(axes, places, values, look.colour, look.dashes).set_label(look.label)
        axes.set_xlabel("round" if along is None else self._title(along))
        axes.set_ylabel(self._title(key))
        axes.margins(x=0.01)

    def _key(self, metric: str) -> str:
        """Return the key of a metric in metrics.jsonl, and check that it was measured."""
        results = self._results
        key = next((shown.key for shown in results.declared.values() if shown.name == metric), metric)
        measured = [of for of in line_keys(results) if any(line.get(of) is not None for line in results.lines)]
        if key not in measured:
            raise UserError(unknown_name("metric", metric, measured))
        return key

    def _scale(self, key: str) -> float:
        shown = self._results.declared.get(key)
        return shown.scale if shown else 1.0

    def _title(self, key: str) -> str:
        shown = self._results.declared.get(key)
        return shown.title if shown else key.replace("_", " ")
