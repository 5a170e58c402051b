"""The panel of the consensus distance: how far the clients' models are from their mean."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mdfl_jax.report.panels.curves import MANY, draw_mean, explain, naming
from mdfl_jax.report.read import Run
from mdfl_jax.report.recorded import recorded
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.style import looks, make_panels, seeds_told

KEY = "consensus_distance"
EQUAL = 1e-5  # models that are equal have a distance of rounding errors, below this share of the largest distance
FEW = 100  # an axis of less than two powers of ten has labels at 2 and 5 times a power, too


def _applies(run: Run) -> bool:
    """Return whether the models of the clients differ: those of an algorithm with a server may never do."""
    return KEY in recorded(run).values


def _caption(run: Run) -> str:
    return (
        "Consensus distance, the root mean square distance of the clients' models from their mean, on a logarithmic"
        f" axis: {seeds_told(run)}. Where it falls, the clients agree more and more; where it stays, groups of clients"
        " keep models of their own."
    )


def _chart(run: Run) -> Chart:
    return Chart("curves", {"from": "accuracy", "start_with": {"metric": KEY, "x": "", "logy": True}})


@figure("consensus", caption=_caption, applies=_applies, place=60, title="Consensus", chart=_chart)
def consensus(run: Run) -> Figure:
    """Draw the consensus distance against the rounds, on a logarithmic axis."""
    found = recorded(run)
    drawn, (axes,) = make_panels(1, 1, 7.2, 3.4)
    thin = len(run.points) > MANY
    named = naming(run, thin)
    handles: dict[str, Any] = {}
    of_points = zip(found.values[KEY], found.diverged, looks(run), named.labels, named.dashes)
    for values, diverged, look, label, dashes in of_points:
        ran = np.isfinite(values).any(1) & (~diverged | diverged.all())
        known = (values[ran] > EQUAL * np.nanmax(found.values[KEY])).all(0)
        if ran.any() and known.any():
            rounds, runs = found.rounds[known], values[ran][:, known]
            lowest = float(runs.mean(0).min()) / 10  # a logarithmic axis has no 0
            limits = (lowest, float("inf"))
            handles.setdefault(label, draw_mean(axes, rounds, runs, look.colour, dashes, limits, thin))
    axes.set_yscale("log")
    bottom, top = axes.get_ylim()
    axes.yaxis.set_major_formatter("{x:g}")  # not as a formula, which the style turns off
    axes.yaxis.set_minor_formatter(lambda x, _: f"{x:g}" if top < FEW * bottom and f"{x:e}"[0] in "25" else "")
    axes.set_xlabel("round")
    axes.set_ylabel("consensus distance")
    axes.margins(x=0.01)
    explain(drawn, handles, run, named.title, beside=True)
    return drawn
