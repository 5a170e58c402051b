"""The panels of curves: the test accuracy, the consensus distance and further metrics against the rounds.

On the page the reader explores any recorded metric against any axis: `explorer` makes the data for assets/curves.js.
"""

from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core.metric import Shown
from mdfl_jax.core.outcomes import judged_key, t_quantile
from mdfl_jax.metrics import CURVE
from mdfl_jax.report.picture import Level, Picture, Plot, Scale, Series, mean_line
from mdfl_jax.report.quantities import Quantity, Recorded, recorded
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.style import describe_end, describe_seeds, has_intervals, looks, main_axis
from mdfl_jax.results.axes import is_attacked, point_labels, spaced
from mdfl_jax.results.results import ROUNDS, Results

MAX_FACETS = 12
MANY = 12  # with more lines in a panel they are thin, without bands, and the legend names colours instead of points


def against(study: Results) -> str:
    """Return what the curves of a study are drawn against, for captions."""
    return "rounds" if study.x_axis == ROUNDS else study.x_title


def _accuracy_caption(study: Results) -> str:
    labels = [look.label for look in looks(study)]
    means = [point["final_accuracy"].get("mean") for point in study.outcomes]
    ranked = sorted((mean, label) for mean, label in zip(means, labels) if mean is not None)
    highest = (
        f" Highest at {describe_end(study)}: {ranked[-1][1]}, {100 * ranked[-1][0]:.2f} %." if len(ranked) > 1 else ""
    )
    whose = "of the global model" if study.config.get("judged") == "global" else "averaged over the clients"
    if is_attacked(study.outcomes, study.config):
        whose = whose.replace("the clients", "the honest clients")
    banded = has_intervals(study) and not _is_crowded(study)
    said = f"Test accuracy, {whose}, against {against(study)}: {describe_seeds(study)}"
    band = "; band" if len(study.points) <= MANY else "; band, where it is drawn"
    said += f"{band}: 95 % Student-t interval over the seeds." if banded else "."
    if study.config.get("target") is not None:
        said += f" Dashed: the target of {100 * study.config['target']:g} %."
    return said + highest


def _accuracy_chart(study: Results) -> Chart:
    return Chart("curves", explorer(study))


@figure("accuracy", caption=_accuracy_caption, place=10, title="Curves", chart=_accuracy_chart)
def accuracy(study: Results) -> Picture:
    """Draw the test accuracy against the rounds or another x axis: the mean over the seeds and its 95 % interval."""
    panels, crowded = facets(study), _is_crowded(study)
    single = len(panels) == 1
    named = naming(study, crowded) if single else _by_main(study, crowded)
    target = study.config.get("target")
    levels = [] if target is None else [Level(100 * target, "ink", f"target {100 * target:g} %")]
    x, y = Scale(study.x_title), Scale("test accuracy (%)", bounds=(0, 100))

    def line(p: int) -> Series:
        return named.line(p, study.along(p), 100 * study.curve(p).of_results.accuracy, (0, 100))

    plots = [Plot(title, x, y, list(map(line, members)), levels) for title, members in panels.items()]
    size = (7.2, 3.9) if single else (2.9, 2.5)
    return Picture(plots, size, legend=named.title, beside=single, shared=True)


class Naming(NamedTuple):
    """The label, the colour and the dashes of the line of each sweep point, and the title of the legend."""

    points: list[str]  # the name of each sweep point
    labels: list[str]  # the text in the legend, which several points may share
    looks: list[tuple[str, int]]  # colours and dashes
    title: str | None
    thin: bool  # whether the lines are thin and without bands, as many lines are

    def line(self, p: int, x: np.ndarray, values: np.ndarray, limits: tuple[float, float] | None) -> Series:
        """Return the mean of a sweep point's values as a line."""
        return mean_line(self.points[p], self.looks[p], x, values, limits, self.thin, self.labels[p])


def naming(study: Results, crowded: bool) -> Naming:
    """Return the names of the lines of a panel with all sweep points.

    Each point has a name of its own. If a panel is crowded and several settings vary, the legend names the colours.
    """
    styles, main = looks(study), main_axis(study)
    if main is not None and (len(study.axes) == 1 or crowded):
        return _by_main(study, crowded, len(study.axes) == 1)
    return Naming(study.labels, study.full_labels, [(of.colour, of.dash) for of in styles], None, crowded)


def _by_main(study: Results, crowded: bool, dashed: bool = False) -> Naming:
    """Return names by the setting that decides the colours, with dashes or without."""
    main, styles = main_axis(study), looks(study)
    assert main is not None
    full = dict(reversed([*zip(main.texts, main.full_texts)]))  # the first point of a value has its long form
    labels = [spaced(full[text]) for text in main.texts]
    own = [(of.colour, of.dash if dashed else 0) for of in styles]
    return Naming(study.labels, labels, own, main.title, crowded)


def _is_crowded(study: Results) -> bool:
    return max(map(len, facets(study).values())) > MANY


def facets(study: Results) -> dict[str, list[int]]:
    """Group the indices of the sweep points into panels by all varying settings except the main one.

    There is a single panel if there would be more than `MAX_FACETS`, or fewer than two lines in a panel on average.
    """
    main = main_axis(study)
    others = [axis for axis in study.axes if axis != main]
    found: dict[str, list[int]] = {}
    for p, title in enumerate(point_labels(study.outcomes, others)):
        found.setdefault(spaced(title) if others else "", []).append(p)
    if len(found) > MAX_FACETS or 2 * len(found) > len(study.points):
        return {"": list(range(len(study.points)))}
    return found


def facets_on_page(study: Results) -> dict[str, list[int]]:
    """Return the panels of the page: one, if it has few lines of which no two look alike, else those of `facets`."""
    alike = len({(look.colour, look.dash) for look in looks(study)}) < len(study.points)
    return facets(study) if alike or len(study.points) > MANY else {"": list(range(len(study.points)))}


def explorer(study: Results) -> dict[str, Any]:
    """Return all that the page needs to draw any recorded metric against any axis, for `Chart.data`.

    "values" has [P, S, E] float32 by key, with NaN for what is missing.
    """
    found = recorded(study)
    extremes = _extremes(study, found)
    target = study.config.get("target")
    quantile = [None, None, *(t_quantile(n - 1) for n in range(2, len(found.seeds) + 1))]
    return {
        "metrics": [_described(quantity, found, extremes) for quantity in found.quantities],
        "start": judged_key(study.config),
        "axis": "" if study.x_axis == ROUNDS else study.x_axes[study.x_axis].key,
        "target": None if target is None else {"key": judged_key(study.config), "value": float(target)},
        "rounds": found.rounds,
        "seeds": [int(seed) for seed in found.seeds],
        "facets": [{"title": title, "points": points} for title, points in facets_on_page(study).items()],
        "quantile": quantile,  # of Student's t, by the number of seeds
        "points": [
            {
                "dash": look.plotly_dash,
                "seeds": np.flatnonzero(known),
                "diverged": [int(s) for s in np.flatnonzero(lost)],
            }
            for look, known, lost in zip(looks(study), _ran(found), found.diverged)
        ],
        "values": {key: _short(array) for key, array in (found.values | extremes).items()},
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


def _extremes(study: Results, found: Recorded) -> dict[str, np.ndarray]:
    """Return the lowest and highest client's number [P, S, E] of the metrics for which no line has them."""
    made: dict[str, np.ndarray] = {}
    for key in (of.key for of in found.quantities if of.per_client and f"{of.key}_min" not in found.values):
        for name, extreme in (("lowest", np.fmin), ("highest", np.fmax)):
            made[f"{key}:{name}"] = np.full_like(found.values[key], np.nan)
            for p in range(len(study.points)):
                array = study.history(p, key)  # [S, E, N], unless an axis has another meaning
                at = (
                    np.searchsorted(found.seeds, study.seeds_of(p)),
                    np.searchsorted(found.rounds, study.curve(p).rounds),
                )
                if array is not None and array.ndim == 3 and array.shape[:2] == (len(at[0]), len(at[1])):
                    made[f"{key}:{name}"][p][np.ix_(*at)] = extreme.reduce(array.astype(float), axis=2)
    return {key: array for key, array in made.items() if np.isfinite(array).any()}


def _short(values: np.ndarray) -> np.ndarray:
    """Return numbers as float32 rounded to 16 bits of mantissa, five digits, so that they pack well."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x40) & np.uint32(0xFFFFFF80)).view(np.float32)


DISTANCE = "consensus_distance"
EQUAL_MODELS = 1e-5  # equal models have a distance of rounding errors, below this share of the largest distance


def _further_metrics(study: Results) -> list[Shown]:
    """Return the consensus distance, then the metrics that are declared to be curves, which a sweep point has."""
    known = [of for of in study.declared.values() if of.key in recorded(study).values]
    return [of for of in known if of.key == DISTANCE] + [of for of in known if CURVE in of.where]


def _metrics_caption(study: Results, shown: list[Shown]) -> str:
    titles = ", ".join(metric.title for metric in shown)
    banded = has_intervals(study) and len(study.points) <= MANY
    band = "; bands: 95 % Student-t intervals over the seeds" if banded else ""
    said = f"Further metrics against {against(study)} ({titles}): {describe_seeds(study)}{band}."
    what = (
        " The consensus distance, on a logarithmic axis, is the root mean square distance of the clients' models from"
        " their mean: where it falls, the clients agree more and more."
    )
    return said + what * (DISTANCE in [metric.key for metric in shown])


def _metrics_chart(study: Results, shown: list[Shown]) -> Chart:
    start = {"metric": shown[0].key} | ({"logy": True} if shown[0].key == DISTANCE else {})
    return Chart("curves", {"from": "accuracy", "start_with": start})


@figure("metrics", of=_further_metrics, caption=_metrics_caption, place=60, title="More metrics", chart=_metrics_chart)
def metrics(study: Results, shown: list[Shown]) -> Picture:
    """Draw further metrics along the x axis, with one panel for each metric and one line for each sweep point."""
    named, many = naming(study, len(study.points) > MANY), range(len(study.points))

    def line(p: int, metric: Shown) -> Series:
        values, x = study.curve(p).of_results.values[metric.key] / metric.scale, study.along(p)
        limits = (0.0, np.inf) if np.nanmin(values) >= 0 else None  # an interval, too, ends at 0
        if metric.key == DISTANCE:  # a logarithmic axis has no 0
            told = (values > EQUAL_MODELS * np.nanmax(values, initial=0)).all(axis=0)
            values, x = values[:, told], x[told]
            limits = (float(values.mean(axis=0).min(initial=np.inf)) / 10, np.inf)
        return named.line(p, x, values, limits)

    def plot(metric: Shown) -> Plot:
        lines = [line(p, metric) for p in many if metric.key in study.curve(p).values]
        return Plot("", Scale(study.x_title), Scale(metric.title, metric.key == DISTANCE), lines)

    size = (7.2, 3.9) if len(shown) == 1 else (3.4, 2.8)
    return Picture(list(map(plot, shown)), size, legend=named.title)
