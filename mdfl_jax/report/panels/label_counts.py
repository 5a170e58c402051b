"""The figure of the clients' data: the number of samples of each client and class."""

from pathlib import Path

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.heterogeneity import heterogeneity
from mdfl_jax.report.read import ReportData
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.settings import point_labels, spaced
from mdfl_jax.report.style import INSIDE, MOBILE, STATIC, STYLE, describe_first_seed, looks

# The total variation distance, as a share of its largest value, in words.
LEVELS = ((0.1, "almost equally"), (0.35, "somewhat unequally"), (0.65, "unequally"), (np.inf, "very unequally"))
MAX_DATA = 12  # so many different divisions of the data are on the page; a sweep of alpha has one for each value


def _counts(study: ReportData) -> np.ndarray:
    counts = study.array(0, "label_counts")
    assert counts is not None
    return counts


def divisions(study: ReportData) -> list[list[int]]:
    """Return the sweep points, by index, in groups that share the first seed's data."""
    found: dict[tuple[tuple[int, ...], bytes], list[int]] = {}
    for p in range(len(study.points)):
        counts = study.array(p, "label_counts")
        if counts is not None:
            found.setdefault((counts.shape, counts.astype(np.int64).tobytes()), []).append(p)
    return list(found.values())


def _mobile(study: ReportData, members: list[int]) -> np.ndarray:
    """Return which clients are mobile in any of some sweep points, [N] bool."""
    masks = [mobile.astype(bool) for p in members if (mobile := study.array(p, "is_mobile")) is not None]
    counts = study.array(members[0], "label_counts")
    assert counts is not None
    return np.any(masks, axis=0) if masks else np.zeros(len(counts), bool)


def inequality(counts: np.ndarray) -> str:
    """Return a sentence that says how unequal the clients' data are (`mdfl_jax.data.heterogeneity`).

    Args:
      counts: [N, C] the number of samples of each client and class.
    """
    if not counts.sum():
        return ""
    found, classes, clients = heterogeneity(counts), counts.shape[1], counts.shape[0]
    level = found.total_variation / max(1 - 1 / classes, 1e-9)
    words = next(word for bound, word in LEVELS if level <= bound)
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


def _names(study: ReportData, groups: list[list[int]]) -> list[str]:
    """Return a name for each division: the settings that all its sweep points share, or some of the sweep points."""
    shared = [axis for axis in study.axes if all(len({axis.texts[p] for p in members}) == 1 for members in groups)]
    if shared:
        labels = [spaced(label) for label in point_labels(study.points, shared)]
        return [labels[members[0]] for members in groups]
    labels = [look.label for look in looks(study)]
    more = [f" and {len(members) - 2} more" if len(members) > 2 else "" for members in groups]
    return ["; ".join(labels[p] for p in members[:2]) + others for members, others in zip(groups, more)]


def _caption(study: ReportData) -> str:
    groups = divisions(study)
    told = f" {inequality(_counts(study))}" if len(groups) == 1 else ""
    more = f" The first {MAX_DATA} of {len(groups)} divisions can be chosen." if len(groups) > MAX_DATA else ""
    dark = "; the mobile clients are marked" if _mobile(study, groups[0]).any() else ""
    which = f", at first of {_names(study, groups)[0]}" if len(groups) > 1 else ""
    return (
        f"Samples of each class that each client holds ({describe_first_seed(study)}{which}); blank: none; the shade is"
        f" logarithmic{dark}.{told}{more}"
    )


def _chart(study: ReportData) -> Chart:
    """Return the counts of each division of the data, with the labels of its sweep points and its sentence."""
    found, groups = [], divisions(study)
    for name, members in list(zip(_names(study, groups), groups))[:MAX_DATA]:
        counts = study.array(members[0], "label_counts")
        assert counts is not None
        told = {"name": name, "mobile": _mobile(study, members), "told": inequality(counts)}
        found.append(told | {"counts": counts.astype(np.int64)})
    return Chart("label_counts", {"divisions": found})


def _applies(study: ReportData) -> bool:
    """Tell whether there is something to see: classes, or clients with different numbers of samples."""
    counts = study.array(0, "label_counts")
    return counts is not None and (counts.shape[1] > 1 or len(set(counts.sum(1))) > 1)


@figure("label_counts", caption=_caption, applies=_applies, place=40, title="The clients' data", chart=_chart)
def label_counts(study: ReportData) -> Figure:
    """Draw the number of samples of each class that each client of the first seed holds."""
    return draw_counts(_counts(study), study.array(0, "is_mobile"))


def draw_counts(counts: np.ndarray, mobile: np.ndarray | None = None) -> Figure:
    """Draw the number of samples of each client, and of each client and class.

    Args:
      counts: [N, C] the number of samples of each client and class.
      mobile: [N] bool, which clients are mobile; they are dark. None: not known.
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


PICTURES = (".png", ".pdf", ".svg")


def check_picture(path: Path) -> None:
    """Check that a picture can be written to a path, without writing it.

    Raises:
      UserError: if the ending is that of no picture, or if the folder does not exist.
    """
    if path.suffix not in PICTURES:
        raise UserError(f"--picture={path}: it must end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}")
    if not path.parent.is_dir():
        raise UserError(f"--picture={path}: there is no folder {str(path.parent)!r}")


def save_counts(counts: np.ndarray, mobile: np.ndarray | None, path: Path) -> None:
    """Save the figure of `draw_counts` as PNG, PDF or SVG, by the ending of the path.

    Raises:
      UserError: if the file cannot be written.
    """
    with matplotlib.style.context(["default", STYLE]):
        drawn = draw_counts(counts, mobile)
        try:
            drawn.savefig(path, dpi=150)
        except OSError as error:
            raise UserError(f"--picture={path}: cannot be written ({error.strerror or error})") from error
