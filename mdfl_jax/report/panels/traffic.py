"""The panel of the traffic: what a client has sent until the end, by kind of message and by group of clients."""

from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from mdfl_jax.core.outcomes import interval_of_known
from mdfl_jax.report.panels.final_accuracy import MANY, named_rows
from mdfl_jax.report.read import ReportData, declared, recorded
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.style import MOBILE, STATIC, describe_end, for_plotly, has_intervals, looks, make_panels

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


def blocks(study: ReportData) -> list[Block]:
    """Return the bar charts of a study: the kinds of its traffic, and what mobile and other clients have sent."""
    return [*_by_kind(study), *_by_group(study)]


def _by_kind(study: ReportData) -> list[Block]:
    """Return the totals whose parts the study has recorded: metrics in the same unit that add up to the total."""
    found, made = recorded(study), []
    counted = found.rounds <= study.summary.get("round", np.inf)
    ends = {  # [P, S], without the runs that have diverged
        key: np.where(found.diverged, np.nan, _ends(array[..., counted])) for key, array in found.values.items()
    }
    for key, (title, unit) in _TOTALS.items():
        own = [m for m in declared(study.summary) if m.unit == unit and m.key not in _TOTALS and m.key in ends]
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


def _by_group(study: ReportData) -> list[Block]:
    """Return what mobile and other clients have sent, if both groups exist and one sends more than the other."""
    bars: dict[str, list[float]] = {"mobile clients": [], "other clients": []}
    halves: dict[str, list[float]] = {name: [] for name in bars}
    for p in range(len(study.points)):
        sent, mobile = study.history(p, "bits_sent"), study.history(p, "is_mobile")
        for name, chosen in zip(bars, (True, False)):
            rows: list[Any] = (
                [] if sent is None or mobile is None else [*zip(sent[:, study.end(p)], np.asarray(mobile) == chosen)]
            )
            lost = study.points[p].get("divergence") or {}
            rows = [row for row, seed in zip(rows, study.seeds(p)) if str(seed) not in lost]
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


def _whiskers(lengths: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """Return the parts of the intervals below and above the bars, [2, P]; nobody sends less than nothing."""
    return np.stack([np.fmin(halves, lengths), halves])


def _colours(block: Block, on_page: bool = False) -> list[str]:
    """Return colours that no sweep point has: greys for the groups, pairs of light and dark for kinds.

    On the page the greys are those of the theme, by their names, and clear enough to see the whiskers on them.
    """
    if not block.stacked:
        return ["mobile/8c", "static/8c"] if on_page else [MOBILE, STATIC]
    return [to_hex(colormaps["Paired"](i % 12)) for i in range(len(block.bars))]


def _caption(study: ReportData, shown: list[Block]) -> str:
    stacked = {block.stacked for block in shown}
    by = " and ".join(text for text, of in (("kind of message", True), ("group of clients", False)) if of in stacked)
    said = f"What a client has sent until {describe_end(study)}, by {by}: means over the clients and the seeds."
    said += " 8 megabits are 1 MB." * any(block.title.startswith("megabits") for block in shown)
    with_intervals = False in stacked and has_intervals(study)
    return said + " Whiskers: 95 % Student-t intervals over the seeds." * with_intervals


def _chart(study: ReportData, shown: list[Block]) -> Chart:
    names = [look.label for look in looks(study)]
    rows, axis = named_rows(names)
    above = 24 + 19 * -(-max(len(block.bars) for block in shown) // 2)  # a narrow screen has two names in a line
    height = rows + above + 56
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"barmode": "relative", "height": height * len(shown), "showlegend": True}
    layout["margin"] = {"l": 20, "r": 14, "t": 0, "b": 0}
    for i, block in enumerate(shown):
        number = "" if i == 0 else str(i + 1)
        place = len(shown) - i  # from below
        top, bottom = (height * place - above) / height / len(shown), (height * (place - 1) + 56) / height / len(shown)
        layout[f"xaxis{number}"] = {"title": {"text": block.title}, "anchor": f"y{number}", "rangemode": "tozero"}
        layout[f"yaxis{number}"] = axis | {"domain": [bottom, top], "anchor": f"x{number}"}
        legend = {"orientation": "h", "x": 0, "y": top, "yanchor": "bottom", "traceorder": "normal"}
        layout[f"legend{number}"] = legend
        for k, ((name, lengths), colour) in enumerate(zip(block.bars.items(), _colours(block, on_page=True))):
            beside = 0.0 if block.stacked else (k - 0.5) * 0.36
            trace: dict[str, Any] = {
                "type": "bar",
                "orientation": "h",
                "name": for_plotly(name),
                "x": lengths,
                "y": np.arange(len(names)) + beside,
                "width": 0.6 if block.stacked else 0.34,
                "text": [for_plotly(label) for label in names],
                "textposition": "none",
                "hovertemplate": "%{text}<br>%{fullData.name}: %{x:.5~g}<extra></extra>",
                "marker": {"color": colour},
                "legend": f"legend{number}",
                "xaxis": f"x{number}",
                "yaxis": f"y{number}",
            }
            if name in block.halves:
                below, beyond = _whiskers(lengths, block.halves[name])
                error = {"array": beyond, "arrayminus": below, "symmetric": False}
                trace["error_x"] = error | {"thickness": 1.4, "width": 3, "color": "ink"}
            traces.append(trace)
    return Chart("plotly", {"traces": traces, "layout": layout})


@figure("traffic", of=blocks, caption=_caption, place=75, title="Traffic", chart=_chart)
def traffic(study: ReportData, shown: list[Block]) -> Figure:
    """Draw what a client has sent until the end: bars by kind of message, and by group of clients."""
    names = [look.label for look in looks(study)]
    many = len(names) > MANY
    height = max((0.13 if many else 0.36) * len(names), 0.8)
    drawn, panels = make_panels(len(shown), 1, 7.2, 1.1 + height)
    for block, axes in zip(shown, panels):
        left = np.zeros(len(names))
        for k, ((name, lengths), colour) in enumerate(zip(block.bars.items(), _colours(block))):
            place = np.arange(len(names)) + (0.0 if block.stacked else (k - 0.5) * 0.36)
            whiskers = {}
            if name in block.halves:
                whiskers = {"xerr": _whiskers(lengths, block.halves[name]), "error_kw": {"elinewidth": 1}}
            thick = 0.6 if block.stacked else 0.34
            axes.barh(place, lengths, thick, left, color=colour, label=name, **whiskers)
            left = left + lengths if block.stacked else left
        axes.set_yticks(range(len(names)), names, fontsize=6 if many else 9)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(left=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(block.title)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4)
    return drawn
