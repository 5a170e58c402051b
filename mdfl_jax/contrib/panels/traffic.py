"""The panel of the traffic: what a client has sent until the end, by kind of message."""

from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex

from mdfl_jax.report.picture import BAR, MANY_ROWS, Picture, Plot, Scale, Series
from mdfl_jax.report.quantities import recorded
from mdfl_jax.report.registry import figure
from mdfl_jax.report.style import describe_end, for_plotly
from mdfl_jax.results.results import Results

# The totals of the traffic: key -> (title, unit of the metrics that may be its parts).
_TOTALS = {"bits_sent": ("megabits", "bits"), "messages": ("messages", "messages")}
_CLOSE = 1e-4  # the parts make up the total if they differ from it by at most this share, as float32 numbers do


class _Block(NamedTuple):
    """One bar chart: the title of its axis, and the means [P] over the seeds by the name of the kind."""

    title: str
    bars: dict[str, np.ndarray]


def blocks(study: Results) -> list[_Block]:
    """Return the totals whose parts the study has recorded: metrics in the same unit that add up to the total."""
    found, made = recorded(study), list[_Block]()
    counted = found.rounds <= study.summary.get("round", np.inf)
    ends = {  # [P, S], without the runs that have diverged
        key: np.where(found.diverged, np.nan, _ends(array[..., counted])) for key, array in found.values.items()
    }
    for key, (title, unit) in _TOTALS.items():
        own = [m for m in study.declared.values() if m.unit == unit and m.key not in _TOTALS and m.key in ends]
        known = np.isfinite(ends[key]) if key in ends else np.zeros(0, bool)
        if len(own) < 2 or not known.any():
            continue
        parts = np.sum([np.nan_to_num(ends[m.key]) for m in own], axis=0)
        if np.allclose(parts[known], ends[key][known], rtol=_CLOSE):
            bars = {m.name.replace("_", " "): _mean(ends[m.key]) / own[0].scale for m in own}
            made.append(_Block(f"{title} by kind", bars))
    return made


def _ends(array: np.ndarray) -> np.ndarray:
    """Return the last known value of each run, [P, S], from values [P, S, E]."""
    known = np.isfinite(array)
    last = array.shape[2] - 1 - known[..., ::-1].argmax(2)
    return np.take_along_axis(array, last[..., None], 2)[..., 0]


def _mean(values: np.ndarray) -> np.ndarray:
    """Return the means [P] of values [P, S] over the seeds that each sweep point has."""
    return np.nansum(values, axis=1) / np.maximum(np.isfinite(values).sum(axis=1), 1)


def _caption(study: Results, shown: list[_Block]) -> str:
    said = (
        f"What a client has sent until {describe_end(study)}, by kind of message: means over the clients and the seeds."
    )
    return said + " 8 megabits are 1 MB." * any(block.title.startswith("megabits") for block in shown)


@figure("traffic", of=blocks, caption=_caption, place=75, title="Traffic")
def traffic(study: Results, shown: list[_Block]) -> Picture:
    """Draw what a client has sent until the end: bars by kind of message."""
    names = study.labels

    def plot(block: _Block) -> Plot:
        begins, series = np.zeros(len(names)), list[Series]()
        for k, (name, lengths) in enumerate(block.bars.items()):
            told = [f"{for_plotly(label)}<br>{for_plotly(name)}: {value:.5g}" for label, value in zip(names, lengths)]
            colour = to_hex(colormaps["Paired"](k % 12))  # pairs of light and dark, which no sweep point has
            bars = Series(name, colour, np.arange(len(names)), lengths, mark=BAR, legend=name, texts=told, thick=0.6)
            series, begins = [*series, bars._replace(base=begins)], begins + lengths
        return Plot("", Scale("point"), Scale(block.title, bounds=(0, np.inf)), series, rows=names)

    height = max((0.13 if len(names) > MANY_ROWS else 0.36) * len(names), 0.8)
    return Picture(list(map(plot, shown)), (7.2, 1.1 + height), columns=1, pixels=(420, 250))
