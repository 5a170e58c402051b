"""The map: the first positions of the clients and their movement."""

import textwrap
from typing import Any

import numpy as np
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import figure
from mdfl_jax.report.style import INSIDE, MOBILE, STAYS, first_seed, looks, make_panels

PATH_ROUNDS, PATH_STEPS = 40, 120  # the longest path of one client and of all clients together; more hide the map
MAX_MAPS = 6
OWN_PLACES = ("trace", "static_trace", "contacts")  # for these mobility rules the positions determine the map's size


def _placed(run: Run) -> list[int]:
    """Returns the sweep points with recorded positions, except those where a pattern alone determines the meetings."""
    paired = [run.value(p, "server.pattern") not in (None, "", "roadside") for p in range(len(run.points))]
    return [p for p in range(len(run.points)) if run.array(p, "position") is not None and not paired[p]]


def _caption(run: Run) -> str:
    placed = _placed(run)
    part = f" Shown are the first {MAX_MAPS} of {len(placed)}." if len(placed) > MAX_MAPS else ""
    return (
        f"Where the clients of {first_seed(run)} start (numbered), and how the mobile ones move in the first"
        f" {path_rounds(run)} rounds, to the squares. A disc is the reach of a client that stays.{part}"
    )


@figure("map", caption=_caption, applies=lambda run: bool(_placed(run)), place=60)
def world_map(run: Run) -> Figure:
    """Draws the first positions of the first seed's clients, and their movement in the first rounds."""
    shown = _placed(run)[:MAX_MAPS]
    styles, rounds = looks(run), path_rounds(run)
    columns, width, height = (2, 3.6, 3.75) if len(shown) < 5 else (3, 3.0, 3.5)
    drawn, panels = make_panels(len(shown), columns, width, height)
    for axes, p in zip(panels, shown):
        _draw_world(axes, run, p, styles[p].colour, rounds)
        axes.set_title(textwrap.fill(styles[p].label, 44))
    drawn.suptitle(f"first {rounds} rounds of the first seed", fontsize=9.5)
    reach = ", disc: its reach" if any(np.isfinite(_radius(run, p)) for p in shown) else ""
    dot: dict[str, Any] = {"linestyle": "none", "marker": "o"}
    handles = [
        Line2D([], [], color=STAYS, label=f"client that stays{reach}", **dot),
        Line2D([], [], color=MOBILE, label="client that moves", **dot),
        Line2D(
            [], [], color=MOBILE, label=f"its place after {rounds} rounds", **dot | {"marker": "s", "markersize": 4}
        ),
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=3, columnspacing=1.2, handletextpad=0.2)
    return drawn


def path_rounds(run: Run) -> int:
    """Returns the number of rounds of movement on the map. With more moving clients it is smaller, for readability."""
    moving, rounds = 1, PATH_ROUNDS
    for p in range(len(run.points)):
        path = run.array(p, "position")
        if path is not None:
            moving = max(moving, int(_moves(run, p).sum()))
            rounds = min(rounds, len(path) - 1)
    return min(rounds, max(8, PATH_STEPS // moving))


def _moves(run: Run, p: int) -> np.ndarray:
    """Tells which clients of a sweep point are mobile, [N] bool; none if no client moved, as under static mobility."""
    path, mobile = run.array(p, "position"), run.array(p, "is_mobile")
    assert path is not None
    return (np.ones(path.shape[1], bool) if mobile is None else mobile.astype(bool)) & np.any(path != path[:1])


def in_plane(path: np.ndarray | None) -> bool:
    """Tells whether positions [R + 1, N, 2] are on the plane; positions on a grid are whole numbers."""
    return path is not None and bool(np.any(path != np.round(path)))


def _draw_world(axes: Any, run: Run, p: int, colour: str, rounds: int) -> None:
    """Draws the map of one sweep point: discs of clients that stay, paths of clients that move, all first positions."""
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
    """Returns the contact radius, infinite under a graph. In a configuration, infinity is inf, "inf" or null."""
    value = None if run.value(p, "network.graph") else run.value(p, "network.radius")
    return float("inf") if value is None else float(value)
