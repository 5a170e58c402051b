"""The figures of a run: accuracy against rounds, final accuracy, groups, label counts and the map, as PNG and PDF.

Colours are safe for colour-blind readers and belong to a point in every figure; a mobility pattern has the same colour
in every run. `Figure` objects only, so nothing global is changed, and two reports of a workdir have the same bytes.
"""

import logging
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.colors import LogNorm, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.special import stdtrit

from mdfl_jax.report.groups import groups
from mdfl_jax.report.read import Axis, Run, point_labels
from mdfl_jax.report.roadside import roadside

PATH_ROUNDS, PATH_STEPS = 40, 120  # longer paths, of one client or of all together, hide the map
MAX_MAPS = 6
MAX_FACETS = 12
DPI = 150

# Okabe and Ito's palette without its yellow, which is too pale for a line on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B")
MOBILITY_COLOURS = {
    "static": "#555555",
    "random_movement": "#E69F00",
    "dam": "#0072B2",
    "dcm": "#D55E00",
    "random_walk": "#56B4E9",
    "random_waypoint": "#009E73",
    "gauss_markov": "#CC79A7",
    "manhattan": "#8C564B",
}
X_LABELS = {"rounds": "round", "messages": "messages sent by a client", "bits": "megabits sent by a client"}
INSIDE: dict[str, Any] = {"ha": "center", "va": "center_baseline", "in_layout": False}  # text that needs no room
STATIC, MOBILE, STAYS = "#b3b3b3", "#2b2b2b", "#6b6b6b"  # greys: the colours belong to the points
OWN_PLACES = ("trace", "static_trace", "contacts")  # mobility rules whose world is where the clients are
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 3)))
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "axes.edgecolor": "#555555",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "lines.linewidth": 1.7,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a "$" in a name is a "$"
}


@dataclass(frozen=True)
class Look:
    """How one point is drawn in every figure."""

    label: str
    colour: str
    dashes: Any


def write(run: Run, x_axis: str = "") -> dict[str, Path]:
    """Writes figures/NAME.png and NAME.pdf; returns the PNG paths by name, without what the run did not record.

    Args:
      run: from `read_workdir`.
      x_axis: rounds, messages or bits; empty: what the study's config says.
    """
    x_axis = x_axis or run.config.get("x_axis") or "rounds"
    folder = run.workdir / "figures"
    folder.mkdir(exist_ok=True)
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # at INFO it tells the story of each embedded font
    makers: dict[str, Callable[[Run], Figure | None]] = {
        "accuracy": lambda run: accuracy(run, x_axis),
        "final_accuracy": final_accuracy,
        "groups": lambda run: groups(run, looks(run)),
        "label_counts": label_counts,
        "roadside": roadside,
        "map": world_map,
    }
    written = {}
    with matplotlib.style.context(["default", STYLE]):  # "default": whatever the user's own matplotlibrc says
        for name, make in makers.items():
            png, pdf = folder / f"{name}.png", folder / f"{name}.pdf"
            figure = make(run)
            if figure is None:
                png.unlink(missing_ok=True)  # of an earlier report
                pdf.unlink(missing_ok=True)
                continue
            figure.savefig(png, dpi=DPI, metadata={"Software": None})
            figure.set_layout_engine("none")  # laid out already
            figure.savefig(pdf, metadata={"CreationDate": None})
            written[name] = png
    return written


def looks(run: Run) -> list[Look]:
    """The label, colour and line of each point.

    The colour belongs to the value of the mobility where that varies, else to the value of the first varying setting:
    a graded scale for numbers, the palette for names. Points that share a colour differ in their dashes.
    """
    labels = [_spaced(label) for label in point_labels(run.points, run.axes)]
    main = _main_axis(run)
    if main is None:
        return [
            Look(label, MOBILITY_COLOURS.get(run.value(0, "network.mobility"), PALETTE[0]), "-") for label in labels
        ]
    colours = _colours(main)
    seen: dict[str, int] = {}
    found = []
    for label, text in zip(labels, main.texts):
        turn = seen[colours[text]] = seen.get(colours[text], -1) + 1
        found.append(Look(label, colours[text], DASHES[turn % len(DASHES)]))
    return found


def accuracy(run: Run, x_axis: str = "rounds") -> Figure:
    """Test accuracy against rounds, messages or bits: mean over clients and seeds, 95 % Student-t interval."""
    facets, styles, main = _facets(run), looks(run), _main_axis(run)
    single = len(facets) == 1
    width, height = (7.2, 3.9) if single else (2.9, 2.5)
    figure, panels = _panels(len(facets), 3, width, height, sharex=True, sharey=True)
    handles: dict[str, Any] = {}
    for axes, (title, members) in zip(panels, facets.items()):
        for p in members:
            look = styles[p]
            label = look.label if main is None or (single and len(run.axes) > 1) else _spaced(main.texts[p])
            handles[label] = _draw_curve(axes, run, p, look.colour, look.dashes if single else "-", x_axis)
        axes.set_title(title)
        axes.margins(x=0.01)
        target = run.config.get("target")
        if target is not None:
            line = axes.axhline(100 * target, color="#333333", linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
            handles[f"target {100 * target:g} %"] = line
    figure.supxlabel(X_LABELS[x_axis], fontsize=9.5)
    figure.supylabel("test accuracy (%)", fontsize=9.5)
    if len(handles) > 1:
        place = {"loc": "outside right upper"} if single else {"loc": "outside upper center", "ncols": 6}
        name = _spaced(main.name) if main is not None and len(run.axes) == 1 else None
        figure.legend(list(handles.values()), list(handles), title=name, alignment="left", **place)
    return figure


def final_accuracy(run: Run) -> Figure:
    """Final test accuracy of each point: the mean, its 95 % interval, and the seeds as small dots."""
    styles = looks(run)
    figure, (axes,) = _panels(1, 1, 7.2, 0.9 + 0.36 * len(styles))
    for p, look in enumerate(styles):
        statistic = run.points[p]["final_accuracy"]
        mean, half = (100 * np.array(statistic.get(key), float) for key in ("mean", "ci95"))
        seeds = 100 * np.array(statistic.get("per_seed") or [], float)
        axes.scatter(seeds, np.full(len(seeds), p + 0.24), s=11, color=look.colour, alpha=0.55, linewidths=0)
        axes.errorbar(mean, p, xerr=half, fmt="o", markersize=6, color=look.colour, elinewidth=1.7, capsize=3.5)
    axes.set_yticks(range(len(styles)), [look.label for look in styles])
    axes.set_ylim(len(styles) - 0.45, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("final test accuracy (%)")
    return figure


def label_counts(run: Run) -> Figure | None:
    """How many samples of each class each client of the first seed holds; None where that was not recorded."""
    counts, mobile = run.array(0, "label_counts"), run.array(0, "is_mobile")
    if counts is None:
        return None
    clients, classes = counts.shape
    size = (float(np.clip(0.6 + 0.36 * clients, 4.5, 9.0)), 1.6 + min(0.27 * classes, 5.0))
    figure = Figure(figsize=size)
    bars, cells = figure.subplots(2, 1, sharex=True, height_ratios=[1, max(2.0, 0.27 * classes)])
    # Counts spread over orders of magnitude: a logarithmic scale, which starts below one so that one sample is seen.
    shade, norm = matplotlib.colormaps["Blues"], LogNorm(0.5, max(2, counts.max()))
    drawn = cells.imshow(np.ma.masked_less(counts.T, 1), aspect="auto", cmap=shade, norm=norm, interpolation="nearest")
    if clients <= 30 and classes <= 20:
        for i, c in np.argwhere(counts > 0):
            ink = "white" if norm(counts[i, c]) > 0.6 else "#1a1a1a"
            cells.text(i, c, f"{counts[i, c]:.0f}", color=ink, fontsize=6.5, **INSIDE)
        cells.set_xticks(range(clients))
        cells.set_yticks(range(classes))
    else:
        figure.colorbar(drawn, ax=[bars, cells], label="samples", fraction=0.03, pad=0.01, format="%d")
    tint = STATIC if mobile is None else np.where(mobile, MOBILE, STATIC)
    sizes = bars.bar(range(clients), counts.sum(1), color=tint)
    if clients <= 30:
        bars.bar_label(sizes, fmt="%.0f", fontsize=6.5)
    bars.set_ylabel("samples")
    bars.grid(visible=False, axis="x")
    bars.tick_params(axis="x", length=0)
    cells.grid(visible=False)
    cells.set(xlabel="client", ylabel="class")
    if mobile is not None and mobile.any():
        handles = [Patch(color=STATIC, label="static client"), Patch(color=MOBILE, label="mobile client")]
        figure.legend(handles=handles, loc="outside upper right", ncols=2)
    return figure


def world_map(run: Run) -> Figure | None:
    """Where the first seed's clients are, and move in the first rounds; None where positions were not recorded."""
    paired = [run.value(p, "server.pattern") not in (None, "", "roadside") for p in range(len(run.points))]
    # Where clients meet by a pattern nobody looks at places.
    shown = [p for p in range(len(run.points)) if run.array(p, "position") is not None and not paired[p]][:MAX_MAPS]
    if not shown:
        return None
    styles, rounds = looks(run), path_rounds(run)
    columns, width, height = (2, 3.6, 3.75) if len(shown) < 5 else (3, 3.0, 3.5)
    figure, panels = _panels(len(shown), columns, width, height)
    for axes, p in zip(panels, shown):
        _draw_world(axes, run, p, styles[p].colour, rounds)
        axes.set_title(textwrap.fill(styles[p].label, 44))
    figure.suptitle(f"first {rounds} rounds of the first seed", fontsize=9.5)
    reach = ", disc: its reach" if any(np.isfinite(_radius(run, p)) for p in shown) else ""
    dot: dict[str, Any] = {"linestyle": "none", "marker": "o"}
    handles = [
        Line2D([], [], color=STAYS, label=f"client that stays{reach}", **dot),
        Line2D([], [], color=MOBILE, label="client that moves", **dot),
        Line2D(
            [], [], color=MOBILE, label=f"its place after {rounds} rounds", **dot | {"marker": "s", "markersize": 4}
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, columnspacing=1.2, handletextpad=0.2)
    return figure


def path_rounds(run: Run) -> int:
    """How many rounds of movement the map shows: fewer the more clients move, so that it stays readable."""
    moving, rounds = 1, PATH_ROUNDS
    for p in range(len(run.points)):
        path = run.array(p, "position")
        if path is not None:
            moving = max(moving, int(_moves(run, p).sum()))
            rounds = min(rounds, len(path) - 1)
    return min(rounds, max(8, PATH_STEPS // moving))


def _main_axis(run: Run) -> Axis | None:
    axes = run.axes
    return next((axis for axis in axes if axis.path == "network.mobility"), axes[0] if axes else None)


def _colours(axis: Axis) -> dict[str, str]:
    """The colour of each value of an axis, by its text."""
    distinct = dict(zip(axis.texts, axis.values))
    if len(distinct) > 2 and all(isinstance(v, int | float) and not isinstance(v, bool) for v in distinct.values()):
        scale = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.78, len(distinct)))
        return dict(zip(sorted(distinct, key=lambda text: distinct[text]), map(to_hex, scale)))
    fixed = {text: MOBILITY_COLOURS[text] for text in distinct if text in MOBILITY_COLOURS}
    free = [colour for colour in PALETTE if colour not in fixed.values()] or list(PALETTE)
    others = [text for text in distinct if text not in fixed]
    return fixed | {text: free[i % len(free)] for i, text in enumerate(others)}


def _facets(run: Run) -> dict[str, list[int]]:
    """Points by the settings other than the main one; a single group where that would leave lines alone."""
    main = _main_axis(run)
    others = [axis for axis in run.axes if axis != main]
    facets: dict[str, list[int]] = {}
    for p, title in enumerate(point_labels(run.points, others)):
        facets.setdefault(_spaced(title) if others else "", []).append(p)
    if len(facets) > MAX_FACETS or 2 * len(facets) > len(run.points):
        return {"": list(range(len(run.points)))}
    return facets


def _panels(count: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Any]]:
    """A figure of `count` panels of the given size in inches, and their axes."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = Figure(figsize=(columns * width, rows * height))
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for above, unused in zip(axes[count - columns :], axes[count:]):
        above.tick_params(labelbottom=True)  # sharing hid them
        unused.set_visible(False)
    return figure, axes[:count]


def _draw_curve(axes: Any, run: Run, p: int, colour: str, dashes: Any, x_axis: str) -> Any:
    curve = run.curves[run.points[p]["id"]]
    x = curve.along(x_axis) / (1e6 if x_axis == "bits" else 1)
    percent, seeds = 100 * curve.accuracy, len(curve.accuracy)
    mark = "o" if len(curve.rounds) < 3 else None
    (line,) = axes.plot(x, percent.mean(0), color=colour, linestyle=dashes, marker=mark)
    if seeds > 1:
        half = stdtrit(seeds - 1, 0.975) * percent.std(0, ddof=1) / np.sqrt(seeds)
        band = np.clip((percent.mean(0) - half, percent.mean(0) + half), 0, 100)
        axes.fill_between(x, *band, color=colour, alpha=0.15, linewidth=0)
    return line


def _moves(run: Run, p: int) -> np.ndarray:
    """The mobile clients [N] of a point; none where nothing moved, as under the static pattern."""
    path, mobile = run.array(p, "position"), run.array(p, "is_mobile")
    assert path is not None
    return (np.ones(path.shape[1], bool) if mobile is None else mobile.astype(bool)) & np.any(path != path[:1])


def in_plane(path: np.ndarray | None) -> bool:
    """Whether places [R + 1, N, 2] are of the plane: those of a grid are whole numbers."""
    return path is not None and bool(np.any(path != np.round(path)))


def _draw_world(axes: Any, run: Run, p: int, colour: str, rounds: int) -> None:
    """One point's map: discs of the clients that stay, paths of those that move, all clients' first places."""
    path, moves = run.array(p, "position"), _moves(run, p)
    assert path is not None
    path = path[: rounds + 1].astype(float)
    plane = in_plane(path)
    size = (
        [run.value(p, f"motion.{side}") for side in ("width", "height")] if plane else run.value(p, "network.grid_size")
    )
    by_file = bool(run.value(p, "network.graph")) or run.value(p, "network.mobility") in OWN_PLACES
    known = not by_file and np.all([value is not None for value in np.atleast_1d(np.array(size, object))])
    width, height = np.broadcast_to(np.asarray(size, float) if known else path.max((0, 1)), 2)
    radius, numbered = _radius(run, p), path.shape[1] <= 40
    stays, lines = path[0, ~moves], np.swapaxes(path[:, moves], 0, 1)
    if np.isfinite(radius):
        across = np.full(len(stays), 2 * radius)
        options = {"units": "xy", "offsets": stays, "offset_transform": axes.transData}
        options |= {"facecolor": "#7f7f7f10", "edgecolor": "#7f7f7f50", "linewidth": 0.8}
        axes.add_collection(EllipseCollection(across, across, 0 * across, **options))
    axes.add_collection(LineCollection(list(lines), colors=colour, linewidths=1.1, alpha=0.65, zorder=2))
    rim = {"edgecolors": "white", "linewidths": 0.6}
    axes.scatter(*lines[:, -1].T, s=24, color=colour, marker="s", zorder=3, **rim)
    for places, fill in ((stays, STAYS), (lines[:, 0], colour)):
        axes.scatter(*places.T, s=100 if numbered else 18, color=fill, zorder=4, **rim)
    for i, place in enumerate(path[0] if numbered else ()):
        axes.text(*place, str(i), color="white", fontsize=6, zorder=5, **INSIDE)
    left, low = path.min((0, 1)) if by_file else (0.0, 0.0) if plane else (1.0, 1.0)
    margin = 0.02 * max(width - left, height - low) if plane else 0.7
    axes.set(xlim=(left - margin, width + margin), ylim=(low - margin, height + margin), aspect="equal")
    if not by_file:
        axes.set_xticks(np.arange(left, width + 0.5, max(1, round(width / 6))))
        axes.set_yticks(np.arange(low, height + 0.5, max(1, round(height / 6))))


def _radius(run: Run, p: int) -> float:
    """The contact radius, infinite under a graph; a configuration may write that as inf, "inf" or null."""
    value = None if run.value(p, "network.graph") else run.value(p, "network.radius")
    return float("inf") if value is None else float(value)


def _spaced(name: str) -> str:
    return name.replace("_", " ")
