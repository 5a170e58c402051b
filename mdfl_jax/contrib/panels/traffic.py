"""The panel of the traffic: what a client has sent until the end, by kind of message and by group of clients."""

from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex

from mdfl_jax.core.outcomes import interval_of_known
from mdfl_jax.report.picture import BAR, MANY_ROWS, Picture, Plot, Scale, Series
from mdfl_jax.report.quantities import recorded
from mdfl_jax.report.registry import figure
from mdfl_jax.report.style import describe_end, for_plotly, has_intervals
from mdfl_jax.results.results import Results

# The totals of the traffic: key -> (title, unit of the metrics that may be its parts).
_TOTALS = {"bits_sent": ("megabits", "bits"), "messages": ("messages", "messages")}
_CLOSE = 1e-4  # the parts make up the total if they differ from it by at most this share, as float32 numbers do


class Block(NamedTuple):
    """One bar chart: "bars" has the length of a bar for each sweep point [P], by name.

    Attributes:
      title: the title of the x axis.
      stacked: whether the bars are parts of a whole.
      bars: [P] by name.
      halves: [P] half the width of a bar's 95 % interval, by name; empty if there are none.
    """

    title: str
    stacked: bool
    bars: dict[str, np.ndarray]
    halves: dict[str, np.ndarray]


def blocks(study: Results) -> list[Block]:
    """Return the bar charts of a study: the kinds of its traffic, and what mobile and other clients have sent."""
    return [*_by_kind(study), *_by_group(study)]


def _by_kind(study: Results) -> list[Block]:
    """Return the totals whose parts the study has recorded: metrics in the same unit that add up to the total."""
    found, made = recorded(study), []
    counted = found.rounds <= study.summary.get("round", np.inf)
    ends = {  # [P, S], without the runs that have diverged
        key: np.where(found.diverged, np.nan, _ends(array[..., counted])) for key, array in found.values.items()
    }
    for key, (title, unit) in _TOTALS.items():
        own = [m for m in study.declared.values() if m.unit == unit and m.key not in _TOTALS and m.key in ends]
        total = ends.get(key)
        known = np.zeros(0, bool) if total is None else np.isfinite(total)
        if total is None or len(own) < 2 or not known.any():
            continue
        parts = np.sum([np.nan_to_num(ends[m.key]) for m in own], axis=0)
        if np.allclose(parts[known], total[known], rtol=_CLOSE):
            scale = own[0].scale
            bars = {m.name.replace("_", " "): _mean(ends[m.key]) / scale for m in own}
            made.append(Block(f"{title} by kind", True, bars, {}))
    return made


def _by_group(study: Results) -> list[Block]:
    """Return what mobile and other clients have sent, if both groups exist and one sends more than the other."""
    bars: dict[str, list[float]] = {"mobile clients": [], "other clients": []}
    halves: dict[str, list[float]] = {name: [] for name in bars}
    for p in range(len(study.points)):
        sent, mobile = study.history(p, "bits_sent"), study.history(p, "is_mobile")
        for name, chosen in zip(bars, (True, False)):
            rows: list[Any] = (
                [] if sent is None or mobile is None else [*zip(sent[:, study.end(p)], np.asarray(mobile) == chosen)]
            )
            lost = study.outcomes[p].get("divergence") or {}
            rows = [row for row, seed in zip(rows, study.seeds_of(p)) if str(seed) not in lost]
            found = interval_of_known([row[of].mean() / 1e6 for row, of in rows if of.any()])
            bars[name].append(np.nan if found["mean"] is None else found["mean"])
            halves[name].append(found["ci95"] or 0.0)
    mobile_sent, others_sent = map(np.array, bars.values())
    both = np.isfinite(mobile_sent) & np.isfinite(others_sent)
    if not both.any() or np.allclose(mobile_sent[both], others_sent[both]):
        return []
    arrays = {name: np.array(values) for name, values in bars.items()}
    title = "megabits by group"
    return [Block(title, False, arrays, {name: np.array(values) for name, values in halves.items()})]


def _ends(array: np.ndarray) -> np.ndarray:
    """Return the last known value of each run, [P, S], from values [P, S, E]."""
    known = np.isfinite(array)
    last = array.shape[2] - 1 - known[..., ::-1].argmax(2)
    return np.take_along_axis(array, last[..., None], 2)[..., 0]


def _mean(values: np.ndarray) -> np.ndarray:
    """Return the means [P] of values [P, S] over the seeds that each sweep point has."""
    counts = np.isfinite(values).sum(1)
    return np.nan_to_num(values).sum(1) / np.maximum(counts, 1)


def _colours(block: Block) -> list[str]:
    """Return colours that no sweep point has: greys of the theme for the groups, pairs of light and dark for kinds."""
    if not block.stacked:
        return ["mobile/8c", "static/8c"]  # clear enough to see the whiskers on them
    return [to_hex(colormaps["Paired"](i % 12)) for i in range(len(block.bars))]


def _caption(study: Results, shown: list[Block]) -> str:
    stacked = {block.stacked for block in shown}
    by = " and ".join(text for text, of in (("kind of message", True), ("group of clients", False)) if of in stacked)
    said = f"What a client has sent until {describe_end(study)}, by {by}: means over the clients and the seeds."
    said += " 8 megabits are 1 MB." * any(block.title.startswith("megabits") for block in shown)
    with_intervals = False in stacked and has_intervals(study)
    return said + " Whiskers: 95 % Student-t intervals over the seeds." * with_intervals


@figure("traffic", of=blocks, caption=_caption, place=75, title="Traffic")
def traffic(study: Results, shown: list[Block]) -> Picture:
    """Draw what a client has sent until the end: bars by kind of message, and by group of clients."""
    names = study.labels

    def plot(block: Block) -> Plot:
        begins, series, places = np.zeros(len(names)), list[Series](), np.arange(len(names))
        for k, ((name, lengths), colour) in enumerate(zip(block.bars.items(), _colours(block))):
            told = [f"{for_plotly(label)}<br>{for_plotly(name)}: {value:.5g}" for label, value in zip(names, lengths)]
            bars = Series(name, colour, places, lengths, mark=BAR, legend=name, texts=told, thick=0.6)
            if block.stacked:
                bars, begins = bars._replace(base=begins), begins + lengths
            else:
                bars = bars._replace(x=places + (k - 0.5) * 0.36, thick=0.34)
            if name in block.halves:  # nobody sends less than nothing
                half = block.halves[name]
                bars = bars._replace(low=lengths - np.fmin(half, lengths), high=lengths + half)
            series.append(bars)
        return Plot("", Scale("point"), Scale(block.title, bounds=(0, np.inf)), series, rows=names)

    height = max((0.13 if len(names) > MANY_ROWS else 0.36) * len(names), 0.8)
    return Picture(list(map(plot, shown)), (7.2, 1.1 + height), columns=1, pixels=(420, 250))
