"""The panels of curves: the test accuracy, the consensus distance and further metrics against the rounds.

On the page the reader explores any recorded metric against any axis: `explorer` makes the data for assets/curves.js.
"""

import textwrap
from typing import Any, NamedTuple

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mdfl_jax.core.metric import Shown
from mdfl_jax.core.outcomes import t_quantile
from mdfl_jax.metrics import CURVE
from mdfl_jax.report.read import (
    ROUNDS,
    Quantity,
    Recorded,
    ReportData,
    axes_of,
    declared,
    of_clients,
    point_labels,
    recorded,
    spaced,
)
from mdfl_jax.report.registry import LEVELS, MISSING, Chart, figure
from mdfl_jax.report.style import describe_end, describe_seeds, has_intervals, looks, main_axis, make_panels
from mdfl_jax.results.statistics import band
from mdfl_jax.results.summary import judged_key

MAX_FACETS = 12
MANY = 12  # with more lines in a panel they are thin, without bands, and the legend names colours instead of points
MOST_NAMES = 25  # a legend has at most so many entries
LETTER, HANDLE = 0.066, 0.5  # the width in inches of a letter of a legend, and of a line with its distances


def against(study: ReportData) -> str:
    """Return what the curves of a study are drawn against, for captions."""
    return "rounds" if study.x_axis == ROUNDS else study.x_title


def _accuracy_caption(study: ReportData) -> str:
    labels = [look.label for look in looks(study)]
    means = [point["final_accuracy"].get("mean") for point in study.points]
    ranked = sorted((mean, label) for mean, label in zip(means, labels) if mean is not None)
    highest = (
        f" Highest at {describe_end(study)}: {ranked[-1][1]}, {100 * ranked[-1][0]:.2f} %." if len(ranked) > 1 else ""
    )
    whose = "of the global model" if study.config.get("judged") == "global" else "averaged over the clients"
    banded = has_intervals(study) and not _is_crowded(study)
    said = f"Test accuracy, {whose}, against {against(study)}: {describe_seeds(study)}"
    band = "; band" if len(study.points) <= MANY else "; band, where it is drawn"
    said += f"{band}: 95 % Student-t interval over the seeds." if banded else "."
    if study.config.get("target") is not None:
        said += f" Dashed: the target of {100 * study.config['target']:g} %."
    return said + highest


def _accuracy_chart(study: ReportData) -> Chart:
    return Chart("curves", explorer(study))


@figure("accuracy", caption=_accuracy_caption, place=10, title="Curves", chart=_accuracy_chart)
def accuracy(study: ReportData) -> Figure:
    """Draw the test accuracy against the rounds or another x axis: the mean over the seeds and its 95 % interval."""
    facets, crowded = _facets(study), _is_crowded(study)
    single = len(facets) == 1
    named = naming(study, crowded) if single else _by_main(study, crowded)
    width, height = (7.2, 3.9) if single else (2.9, 2.5)
    drawn, panels = make_panels(len(facets), 3, width, height, sharex=True, sharey=True)
    handles: dict[str, Any] = {}
    for axes, (title, members) in zip(panels, facets.items()):
        for p in members:
            curve = study.curves[study.points[p]["id"]].of_results
            named.draw(axes, p, curve.along(study.x_axis) / study.x_scale, 100 * curve.accuracy, (0, 100), handles)
        axes.set_title(textwrap.fill(title, 36))
        axes.margins(x=0.01)
        target = study.config.get("target")
        if target is not None:
            line = axes.axhline(100 * target, color="#333333", linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
            handles[f"target {100 * target:g} %"] = line
    within(panels[0], 0, 100)
    drawn.supxlabel(study.x_title, fontsize=9.5)
    drawn.supylabel("test accuracy (%)", fontsize=9.5)
    explain(drawn, handles, study, named.title, beside=single)
    return drawn


class Naming(NamedTuple):
    """The label, the colour and the dashes of the line of each sweep point, and the title of the legend."""

    labels: list[str]
    colours: list[str]
    dashes: list[Any]
    title: str | None
    thin: bool  # whether the lines are thin and without bands, as many lines are

    def draw(
        self,
        axes: Any,
        p: int,
        x: np.ndarray,
        values: np.ndarray,
        limits: tuple[float, float] | None,
        handles: dict[str, Any],
    ) -> None:
        """Draw the mean of a sweep point's values (`draw_mean`); the first line of each label becomes its handle."""
        line = draw_mean(axes, x, values, self.colours[p], self.dashes[p], limits, self.thin)
        handles.setdefault(self.labels[p], line)


def naming(study: ReportData, crowded: bool) -> Naming:
    """Return the names of the lines of a panel with all sweep points.

    Each point has a name of its own. If a panel is crowded and several settings vary, the legend names the colours.
    """
    styles, main = looks(study), main_axis(study)
    if main is not None and crowded and len(study.axes) > 1:
        return _by_main(study, crowded)
    colours, dashes = [look.colour for look in styles], [look.dashes for look in styles]
    if main is not None and len(study.axes) == 1:
        return Naming([spaced(text) for text in main.texts], colours, dashes, main.title, crowded)
    return Naming([look.label for look in styles], colours, dashes, None, crowded)


def _by_main(study: ReportData, crowded: bool) -> Naming:
    """Return names by the setting that decides the colours."""
    main = main_axis(study)
    assert main is not None
    labels, colours = [spaced(text) for text in main.texts], [look.colour for look in looks(study)]
    return Naming(labels, colours, ["-"] * len(labels), main.title, crowded)


def explain(
    drawn: Figure, handles: dict[str, Any], study: ReportData, title: str | None = None, beside: bool = False
) -> None:
    """Add a legend that is not clipped, and make the figure higher for it. Many graded colours get a colour bar.

    With only one line nothing is added. If the labels are short, the legend of a single panel may be ``beside`` it.
    """
    if len(handles) < 2:
        return
    longest = max(map(len, handles))
    if len(handles) > MOST_NAMES:
        _colour_bar(drawn, study)
        return
    if beside and longest * LETTER < 1.9 and len(handles) < 17:
        drawn.legend(list(handles.values()), list(handles), title=title, alignment="left", loc="outside right upper")
        return
    width = drawn.get_figwidth()
    columns = min(max(int(width / (HANDLE + LETTER * longest)), 1), len(handles))
    drawn.set_figheight(drawn.get_figheight() + 0.19 * -(-len(handles) // columns) + (0.2 if title else 0))
    lines = list(handles.values())
    drawn.legend(lines, list(handles), title=title, ncols=columns, loc="outside upper center")


def _colour_bar(drawn: Figure, study: ReportData) -> None:
    """Add a colour bar for the main setting, if its values are numbers; other values are named in the table only."""
    main = main_axis(study)
    if main is None or not main.numbers:
        return
    colours, texts = dict(zip(main.texts, (look.colour for look in looks(study)))), list(main.numbers)
    bar = ScalarMappable(Normalize(-0.5, len(texts) - 0.5), ListedColormap([colours[text] for text in texts]))
    every = -(-len(texts) // 10)
    ticks, labels = range(0, len(texts), every), texts[::every]
    drawn.colorbar(bar, ax=drawn.axes, label=spaced(main.name), ticks=list(ticks)).set_ticklabels(labels)


def within(axes: Any, low: float, high: float) -> None:
    """Limit the y axis to values that are possible."""
    bottom, top = axes.get_ylim()
    axes.set_ylim(max(bottom, low), min(top, high))


def _is_crowded(study: ReportData) -> bool:
    return max(map(len, _facets(study).values())) > MANY


def _facets(study: ReportData) -> dict[str, list[int]]:
    """Group the indices of the sweep points into panels by all varying settings except the main one.

    There is a single panel if there would be more than `MAX_FACETS`, or fewer than two lines in a panel on average.
    """
    main = main_axis(study)
    others = [axis for axis in study.axes if axis != main]
    facets: dict[str, list[int]] = {}
    for p, title in enumerate(point_labels(study.points, others)):
        facets.setdefault(spaced(title) if others else "", []).append(p)
    if len(facets) > MAX_FACETS or 2 * len(facets) > len(study.points):
        return {"": list(range(len(study.points)))}
    return facets


def draw_mean(
    axes: Any,
    x: np.ndarray,
    values: np.ndarray,
    colour: str,
    dashes: Any,
    limits: tuple[float, float] | None = None,
    thin: bool = False,
) -> Line2D:
    """Draw the mean of values [S, E] over the seeds at x [E], with its 95 % Student-t interval as a band.

    The band is clipped to the limits, if there are any. A thin line, as one of many, has no band. Return the line.
    """
    mean, half = band(values)
    line: Line2D
    width, mark = 0.8 if thin else None, "o" if len(x) < 3 else None
    (line,) = axes.plot(x, mean, color=colour, linestyle=dashes, marker=mark, linewidth=width)
    if half is not None and not thin:
        ends = (mean - half, mean + half)
        axes.fill_between(x, *(np.clip(ends, *limits) if limits else ends), color=colour, alpha=0.15, linewidth=0)
    return line


CLIENT_NUMBERS = 4_000_000  # at most so many numbers of single clients are in a page, 8 MB before they are packed


def explorer(study: ReportData) -> dict[str, Any]:
    """Return all that the page needs to draw any recorded metric against any axis, for `Chart.data`.

    "values" has [P, S, E] float32 by key, with NaN for what is missing; "clients" has the numbers of the single clients
    in the first seed, by metric (`_clients`).
    """
    found = recorded(study)
    extremes = _extremes(study, found)
    target = study.config.get("target")
    quantile = [None, None, *(t_quantile(n - 1) for n in range(2, len(found.seeds) + 1))]
    own = axes_of(study.summary)
    return {
        "metrics": [_described(quantity, found, extremes) for quantity in found.quantities],
        "start": judged_key(study.config),
        "axis": "" if study.x_axis == ROUNDS else own[study.x_axis].key,
        "target": None if target is None else {"key": judged_key(study.config), "value": float(target)},
        "rounds": found.rounds,
        "seeds": [int(seed) for seed in found.seeds],
        "quantile": quantile,  # of Student's t, by the number of seeds
        "points": [
            {
                "dash": look.plotly_dash,
                "seeds": np.flatnonzero(known),
                "diverged": [int(s) for s in np.flatnonzero(lost)],
            }
            for look, known, lost in zip(looks(study), _ran(found), found.diverged)
        ],
        "values": {key: short(array) for key, array in (found.values | extremes).items()},
        "clients": _clients(study, found),
    }


def _described(quantity: Quantity, found: Recorded, extremes: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return what the page knows of a metric; "lowest" and "highest" are the keys of the extremes over the clients."""
    key = quantity.key
    ends = {}
    for name, recorded_as in (("lowest", f"{key}_min"), ("highest", f"{key}_max")):
        among = [of for of in (recorded_as, f"{key}:{name}") if of in found.values or of in extremes]
        ends[name] = among[0] if among and quantity.per_client else None
    return {
        "key": key,
        "title": quantity.title,
        "scale": quantity.scale,
        "share": quantity.share,
        "further": quantity.of != key,
        "axis": quantity.grows,
        "positive": bool(np.nanmin(found.values[key]) >= 0),
        **ends,
    }


def _ran(found: Recorded) -> np.ndarray:
    """Tell for each sweep point and seed whether the run has recorded any number, [P, S] bool."""
    return np.any([np.isfinite(array).any(axis=2) for array in found.values.values()], axis=0)


def _extremes(study: ReportData, found: Recorded) -> dict[str, np.ndarray]:
    """Return the lowest and highest client's number [P, S, E] of the metrics for which no line has them."""
    metrics = {metric.key: metric for metric in declared(study.summary)}
    made: dict[str, np.ndarray] = {}
    for key in (quantity.key for quantity in found.quantities if quantity.per_client):
        if f"{key}_min" in found.values:
            continue
        for name, extreme in (("lowest", np.fmin), ("highest", np.fmax)):
            made[f"{key}:{name}"] = np.full_like(found.values[key], np.nan)
            for p in range(len(study.points)):
                array = of_clients(study, p, key, metrics)
                at = _seeds(study, found, p)
                if array is not None and len(array) == len(at):
                    where = np.ix_(at, _evaluations(study, found, p))
                    made[f"{key}:{name}"][p][where] = extreme.reduce(array.astype(float), axis=2)
    return {key: array for key, array in made.items() if np.isfinite(array).any()}


def _seeds(study: ReportData, found: Recorded, point: int) -> np.ndarray:
    """Return the indices in ``found.seeds`` of the seeds of a sweep point, in the order of history.npz."""
    return np.searchsorted(found.seeds, study.seeds(point))


def _evaluations(study: ReportData, found: Recorded, point: int) -> np.ndarray:
    """Return the indices in ``found.rounds`` of the evaluations of a sweep point."""
    return np.searchsorted(found.rounds, study.curves[study.points[point]["id"]].rounds)


def _clients(study: ReportData, found: Recorded) -> dict[str, Any]:
    """Return the numbers of the single clients in the first seed of each sweep point, by metric.

    Each metric has "values", the stored numbers of all sweep points one after the other, [N, evaluations] of each, and
    "points": for each sweep point None, or the number of "clients", the indices "at" of the evaluations and the rest of
    `stored`. If there would be more than `CLIENT_NUMBERS`, evaluations are left out evenly.
    """
    metrics = {metric.key: metric for metric in declared(study.summary)}
    taken: dict[str, dict[int, np.ndarray]] = {}
    for key in (quantity.key for quantity in found.quantities if quantity.per_client):
        arrays = {p: of_clients(study, p, key, metrics) for p in range(len(study.points))}
        first = {p: array[0] for p, array in arrays.items() if array is not None and np.isfinite(array[0]).any()}
        taken |= {key: first} if first else {}
    total = sum(array.size for first in taken.values() for array in first.values())
    every = max(-(-total // CLIENT_NUMBERS), 1)
    packs: dict[str, Any] = {}
    for key, first in taken.items():
        points: list[Any] = [None] * len(study.points)
        parts = []
        for p, array in first.items():
            kept = np.arange(len(array))[::-every][::-1]
            if not np.isfinite(array[kept]).any():
                continue  # a run that diverges may have numbers only at evaluations that are left out
            values, how = stored(array[kept].T)
            parts.append(values.ravel())
            points[p] = {"clients": array.shape[1], "at": _evaluations(study, found, p)[kept], **how}
        packs |= {key: {"values": np.concatenate(parts), "points": points}} if parts else {}
    return {"every": every, "of": packs}


def stored(values: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Store numbers in two bytes each, in equal steps between the lowest and the highest of them.

    The steps are those of the logarithm if all numbers are positive and the highest is over 100 times the lowest. Whole
    numbers that differ by less than `LEVELS` are stored exactly.

    Returns:
      (uint16 numbers of the same shape, {"low": lowest, "step": step, "log": whether they are logarithms}). A number is
      low + step * stored, or e to this power; `MISSING` stands for NaN and infinity.
    """
    known = values[np.isfinite(values)].astype(float)
    low, high = float(known.min()), float(known.max())
    logarithmic = low > 0 and high > 100 * low
    numbers = np.where(np.isfinite(values), values, low).astype(float)
    if logarithmic:
        numbers, low, high = np.log(numbers), np.log(low), np.log(high)
    whole = not logarithmic and high - low <= LEVELS and bool((known == np.round(known)).all())
    step = 1.0 if whole else (high - low) / LEVELS or 1.0
    levels = np.where(np.isfinite(values), np.round((numbers - low) / step), MISSING)
    return levels.astype(np.uint16), {"low": float(low), "step": float(step), "log": logarithmic}


def short(values: np.ndarray) -> np.ndarray:
    """Return numbers as float32 rounded to 16 bits of mantissa, five digits, so that they pack well."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x40) & np.uint32(0xFFFFFF80)).view(np.float32)


def _further_metrics(study: ReportData) -> list[Shown]:
    """Return the metrics that are declared to be curves and that at least one sweep point has."""
    recorded = {name for curve in study.curves.values() for name in curve.measured}
    return [metric for metric in declared(study.summary) if CURVE in metric.where and metric.name in recorded]


def _metrics_caption(study: ReportData, shown: list[Shown]) -> str:
    titles = ", ".join(metric.title for metric in shown)
    banded = has_intervals(study) and len(study.points) <= MANY
    band = "; bands: 95 % Student-t intervals over the seeds" if banded else ""
    return f"Further metrics against {against(study)} ({titles}): {describe_seeds(study)}{band}."


def _metrics_chart(study: ReportData, shown: list[Shown]) -> Chart:
    return Chart("curves", {"from": "accuracy", "start_with": {"metric": shown[0].key}})


@figure("metrics", of=_further_metrics, caption=_metrics_caption, place=70, title="More metrics", chart=_metrics_chart)
def metrics(study: ReportData, shown: list[Shown]) -> Figure:
    """Draw further metrics along the x axis, with one panel for each metric and one line for each sweep point."""
    named = naming(study, len(study.points) > MANY)
    drawn, panels = make_panels(len(shown), 3, *((7.2, 3.9) if len(shown) == 1 else (3.4, 2.8)))
    handles: dict[str, Any] = {}
    for axes, metric in zip(panels, shown):
        for p, point in enumerate(study.points):
            curve = study.curves[point["id"]].of_results
            if metric.name in curve.measured:
                values, x = curve.measured[metric.name] / metric.scale, curve.along(study.x_axis) / study.x_scale
                limits = (0.0, np.inf) if np.nanmin(values) >= 0 else None  # an interval, too, ends at 0
                named.draw(axes, p, x, values, limits, handles)
        axes.set_ylabel(metric.title)
        axes.set_xlabel(study.x_title)
        axes.margins(x=0.01)
    explain(drawn, handles, study, named.title)
    return drawn


DISTANCE = "consensus_distance"
EQUAL_MODELS = 1e-5  # equal models have a distance of rounding errors, below this share of the largest distance
FEW_LABELS = 100  # an axis of less than two powers of ten has labels at 2 and 5 times a power, too


def _consensus_applies(study: ReportData) -> bool:
    """Tell whether the models of the clients differ. With an algorithm that has a server they may never differ."""
    return DISTANCE in recorded(study).values


def _consensus_caption(study: ReportData) -> str:
    return (
        "Consensus distance, the root mean square distance of the clients' models from their mean, on a logarithmic"
        f" axis: {describe_seeds(study)}. Where it falls, the clients agree more and more; where it stays, groups of"
        " clients keep models of their own."
    )


def _consensus_chart(study: ReportData) -> Chart:
    return Chart("curves", {"from": "accuracy", "start_with": {"metric": DISTANCE, "x": "", "logy": True}})


@figure(
    "consensus",
    caption=_consensus_caption,
    applies=_consensus_applies,
    place=60,
    title="Consensus",
    chart=_consensus_chart,
)
def consensus(study: ReportData) -> Figure:
    """Draw the consensus distance against the rounds, on a logarithmic axis."""
    found = recorded(study)
    drawn, (axes,) = make_panels(1, 1, 7.2, 3.4)
    named = naming(study, len(study.points) > MANY)
    handles: dict[str, Any] = {}
    for p, (values, diverged) in enumerate(zip(found.values[DISTANCE], found.diverged)):
        ran = np.isfinite(values).any(1) & (~diverged | diverged.all())
        known = (values[ran] > EQUAL_MODELS * np.nanmax(found.values[DISTANCE])).all(0)
        if ran.any() and known.any():
            rounds, runs = found.rounds[known], values[ran][:, known]
            lowest = float(runs.mean(0).min()) / 10  # a logarithmic axis has no 0
            named.draw(axes, p, rounds, runs, (lowest, float("inf")), handles)
    axes.set_yscale("log")
    bottom, top = axes.get_ylim()
    axes.yaxis.set_major_formatter("{x:g}")  # not as a formula, which the style turns off
    axes.yaxis.set_minor_formatter(lambda x, _: f"{x:g}" if top < FEW_LABELS * bottom and f"{x:e}"[0] in "25" else "")
    axes.set_xlabel("round")
    axes.set_ylabel("consensus distance")
    axes.margins(x=0.01)
    explain(drawn, handles, study, named.title, beside=True)
    return drawn
