"""The figure of the clients' data: the number of samples of each client and class."""

from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from mdfl_jax.data.heterogeneity import heterogeneity
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.style import INSIDE, MOBILE, STATIC, describe_first_seed, looks
from mdfl_jax.results.axes import point_labels, spaced
from mdfl_jax.results.results import Results

# The total variation distance, as a share of its largest value, in words.
_LEVELS = ((0.1, "almost equally"), (0.35, "somewhat unequally"), (0.65, "unequally"), (np.inf, "very unequally"))
MAX_DATA = 12  # so many different divisions of the data are on the page; a sweep of alpha has one for each value


class Division(NamedTuple):
    """The data of the first seed's clients in some sweep points.

    Attributes:
      points: the indices of the sweep points that share these data.
      counts: [N, C] int, the number of samples of each client and class.
      mobile: [N] bool, which clients are mobile in any of the sweep points.
    """

    points: list[int]
    counts: np.ndarray
    mobile: np.ndarray


def divisions(study: Results) -> list[Division]:
    """Return the different data of a study; none if there is nothing to see in those of the first sweep point.

    There is something to see if there are classes, or clients with different numbers of samples.
    """
    first = study.first_seed(0, "label_counts")
    if first is None or (first.shape[1] == 1 and len(set(first.sum(1))) == 1):
        return []
    groups: dict[tuple[tuple[int, ...], bytes], list[int]] = {}
    arrays = {p: array for p in range(len(study.points)) if (array := study.first_seed(p, "label_counts")) is not None}
    for p, counts in arrays.items():
        groups.setdefault((counts.shape, counts.astype(np.int64).tobytes()), []).append(p)
    found = []
    for points in groups.values():
        counts = arrays[points[0]]
        masks = [array.astype(bool) for p in points if (array := study.first_seed(p, "is_mobile")) is not None]
        mobile = np.any(masks, axis=0) if masks else np.zeros(len(counts), bool)
        found.append(Division(points, counts, mobile))
    return found


def inequality(counts: np.ndarray) -> str:
    """Return a sentence that says how unequal the clients' data are (`mdfl_jax.data.heterogeneity`).

    The counts [N, C] are the numbers of samples of each client and class.
    """
    if not counts.sum():
        return ""
    found, classes, clients = heterogeneity(counts), counts.shape[1], counts.shape[0]
    level = found.total_variation / max(1 - 1 / classes, 1e-9)
    words = next(word for bound, word in _LEVELS if level <= bound)
    empty = f"; {found.empty:.0f} of {clients} clients hold none" if found.empty else ""
    small, large = (f"{size:.0f}" for size in (found.smallest, found.largest))
    sizes = (
        f"Every client has {small} samples."
        if small == large
        else f"A client has {small} to {large} samples (Gini coefficient {found.size_gini:.2f}){empty}."
    )
    if classes == 1:
        return sizes
    return (
        f"The labels are divided {words}: the mean total variation distance between a client's labels and all labels is"
        f" {found.total_variation:.2f} (0: all alike; {1 - 1 / classes:.2f}: one class a client), and a client holds"
        f" {found.effective_classes:.1f} effective classes of {classes} on average. {sizes}"
    )


def _names(study: Results, shown: list[Division]) -> list[str]:
    """Return a name for each division: the settings that all its sweep points share, or some of the sweep points."""
    shared = [axis for axis in study.axes if all(len({axis.texts[p] for p in of.points}) == 1 for of in shown)]
    if shared:
        labels = [spaced(label) for label in point_labels(study.outcomes, shared)]
        return [labels[of.points[0]] for of in shown]
    labels = [look.label for look in looks(study)]
    more = [f" and {len(of.points) - 2} more" if len(of.points) > 2 else "" for of in shown]
    return ["; ".join(labels[p] for p in of.points[:2]) + others for of, others in zip(shown, more)]


def _caption(study: Results, shown: list[Division]) -> str:
    words = f" {inequality(shown[0].counts)}" if len(shown) == 1 else ""
    more = f" The first {MAX_DATA} of {len(shown)} divisions can be chosen." if len(shown) > MAX_DATA else ""
    dark = "; the mobile clients are marked" if shown[0].mobile.any() else ""
    which = f", at first of {_names(study, shown)[0]}" if len(shown) > 1 else ""
    return (
        f"Samples of each class that each client holds ({describe_first_seed(study)}{which}); blank: none; the shade is"
        f" logarithmic{dark}.{words}{more}"
    )


def _chart(study: Results, shown: list[Division]) -> Chart:
    """Return the counts of each division of the data, with the labels of its sweep points and its sentence."""
    found = [
        {"name": name, "mobile": of.mobile, "words": inequality(of.counts), "counts": of.counts.astype(np.int64)}
        for name, of in zip(_names(study, shown), shown[:MAX_DATA])
    ]
    return Chart("label_counts", {"divisions": found})


def _numbers(study: Results, shown: list[Division]) -> list[tuple[Any, ...]]:
    """Return the number of samples of each class that each client holds."""
    rows, mobile = [("client", "mobile", "class", "samples")], shown[0].mobile
    counts = np.ndenumerate(shown[0].counts)
    return [*rows, *((client, bool(mobile[client]), label, int(count)) for (client, label), count in counts)]


@figure(
    "label_counts",
    of=divisions,
    caption=_caption,
    place=40,
    title="The clients' data",
    chart=_chart,
    numbers=_numbers,
)
def label_counts(study: Results, shown: list[Division]) -> Figure:
    """Draw the number of samples of each class that each client of the first seed holds."""
    return draw_counts(shown[0].counts, study.first_seed(0, "is_mobile"))


def draw_counts(counts: np.ndarray, mobile: np.ndarray | None = None) -> Figure:
    """Draw the number of samples of each client, and of each client and class, of counts [N, C].

    Clients that are mobile [N] are dark; None: it is not known which ones are.
    """
    clients, classes = counts.shape
    size = (float(np.clip(0.6 + 0.36 * clients, 4.5, 9.0)), 1.6 + min(0.27 * classes, 5.0))
    drawn = Figure(figsize=size)
    bars, cells = drawn.subplots(2, 1, sharex=True, height_ratios=[1, max(2.0, 0.27 * classes)])
    # Counts differ by orders of magnitude, so the scale is logarithmic. It starts below 1 to make one sample visible.
    shade, norm = matplotlib.colormaps["Blues"], LogNorm(0.5, max(2, counts.max()))
    image = cells.imshow(np.ma.masked_less(counts.T, 1), aspect="auto", cmap=shade, norm=norm, interpolation="nearest")
    if clients <= 30 and classes <= 20:
        for i, c in np.argwhere(counts > 0):
            ink = "white" if norm(counts[i, c]) > 0.6 else "#1a1a1a"
            cells.text(i, c, f"{counts[i, c]:.0f}", color=ink, fontsize=6.5, **INSIDE)
        cells.set_xticks(range(clients))
        cells.set_yticks(range(classes))
    else:
        drawn.colorbar(image, ax=[bars, cells], label="samples", fraction=0.03, pad=0.01, format="%d")
    dark = np.zeros(clients, bool) if mobile is None else mobile
    if clients <= 500:
        sizes = bars.bar(range(clients), counts.sum(1), color=np.where(dark, MOBILE, STATIC))
        if clients <= 30:
            bars.bar_label(sizes, fmt="%.0f", fontsize=6.5)
    else:  # a bar each would take seconds
        for tint, of in ((STATIC, ~dark), (MOBILE, dark)):
            bars.stairs(np.where(of, counts.sum(1), 0), np.arange(clients + 1) - 0.5, fill=True, color=tint)
    bars.set_ylabel("samples")
    bars.grid(visible=False, axis="x")
    bars.tick_params(axis="x", length=0)
    cells.grid(visible=False)
    cells.set(xlabel="client", ylabel="class")
    if mobile is not None and mobile.any():
        handles = [Patch(color=STATIC, label="static client"), Patch(color=MOBILE, label="mobile client")]
        drawn.legend(handles=handles, loc="outside upper right", ncols=2)
    return drawn
