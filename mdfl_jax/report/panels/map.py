"""The map: on the page a playback of all rounds, in files the first positions of the clients and their first moves."""

import textwrap
from typing import Any

import numpy as np
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mdfl_jax.report.playback import RELAYS, clients_of, coloured_by, playback, shown_points, strides, without_links
from mdfl_jax.report.read import Run
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.settings import spaced
from mdfl_jax.report.style import INSIDE, MOBILE, STAYS, first_seed, looks, main_axis, make_panels
from mdfl_jax.report.world import CIRCLE, GRID, World, circle, worlds_of

PATH_ROUNDS = 40  # the longest path of a client in the figure
LINK_ROUNDS = 10  # the rounds whose links are drawn for clients without places
ALL_PATHS = 4  # the length of all paths together, as a multiple of the area's diagonal; longer ones are a tangle
MAX_MAPS = 6
MANY = 1000  # more clients are dots without an edge
UNIT, STREET, REACH = "#D55E00", "#dddddd", "#7f7f7f50"


def _applies(run: Run) -> bool:
    return bool(worlds_of(run))


def _caption(run: Run) -> str:
    """Return the caption of the playback: what one sees, and what of it is computed, left out or not known."""
    shown, found = shown_points(run), worlds_of(run)
    worlds = [found[p] for p in shown]
    told = [f"The clients of {first_seed(run)} in each round."]
    if all(world.kind == CIRCLE for world in worlds):
        told.append("They have no places in this study, so they stand on a circle.")
    elif max(clients_of(run, p) for p in shown) > MANY:
        told.append("Each client is a dot; those that are absent are not drawn.")
    else:
        told.append("Squares stay and circles move.")
    if metric := coloured_by(run, shown):
        told.append(f"The colour of a client is its {metric} at the last evaluation before.")
        sampled = any(run.value(p, "eval_clients") for p in shown)
        told += ["Clients that were not evaluated then have no colour."] if sampled else []
    recorded = [run.has(p, "links") for p in shown]
    if all(recorded):
        told.append("The links of a round are those of its exchange of models, before the clients move.")
    elif any(world.kind != CIRCLE and np.isfinite(world.radius) for world in worlds):
        told.append("Links were not recorded; those that you see are computed from the places and the radius.")
        told += ["Links that failed are drawn too."] if any(run.value(p, "network.link_failure") for p in shown) else []
    else:
        told.append("Links were not recorded.")
    if any(run.value(p, "network.radius_spread") for p in shown):
        told.append("Radii differ from client to client; the discs have the mean radius.")
    if any(run.has(p, name) for p in shown for name in RELAYS):
        told.append("A bent arrow goes from a client to the one that carries its update to the server, or from the one")
        told[-1] += " that brings it a model from there."
    if len(shown) < len(run.points):
        axis, total = main_axis(run), len(found)
        each = f", among them each value of {spaced(axis.name)}" if axis and len(set(axis.texts)) <= len(shown) else ""
        told.append(f"The page has {len(shown)} of {total} sweep points{each}." if len(shown) < total else "")
    return " ".join(filter(None, told))


def _chart(run: Run) -> Chart:
    """Return the playback; its note says if rounds are left out."""
    data = playback(run)
    stride = strides(data)
    note = "" if stride == 1 else f"To keep this page small, it has one of {stride} rounds of the longest sweep points."
    if lacking := without_links(data):
        names = ", ".join(looks(run)[p].label for p in lacking)
        note += f" Links of {names} are not drawn: contacts on the way are only known from the places of all rounds."
    return Chart("map", data | {"note": note})


@figure("map", caption=_caption, applies=_applies, place=25, title="Map, round by round", chart=_chart)
def world_map(run: Run) -> Figure:
    """Draw the first positions of the first seed's clients, and their movement in the first rounds."""
    shown = shown_points(run, MAX_MAPS)
    styles, rounds = looks(run), path_rounds(run)
    worlds = {p: world for p, world in worlds_of(run).items() if p in shown}
    columns, width, height = (2, 3.6, 3.75) if len(shown) < 5 else (3, 3.0, 3.5)
    extents = [world.high - world.low for world in worlds.values()]
    height = min(height, 0.6 + width * max(float(extent[1] / extent[0]) for extent in extents))
    drawn, panels = make_panels(len(shown), columns, width, height)
    for axes, (p, world) in zip(panels, worlds.items()):
        draw_ground(axes, world)
        (_draw_circle if world.kind == CIRCLE else _draw_places)(axes, run, p, world, styles[p].colour, rounds)
        axes.set_title(textwrap.fill(styles[p].label, 44))
    placed = any(world.kind != CIRCLE for world in worlds.values())
    about = f"first {rounds if placed else LINK_ROUNDS} rounds of the first seed"
    drawn.suptitle(about if placed else f"links of the {about}", fontsize=9.5)
    if placed:
        reach = ", disc: its reach" if any(np.isfinite(world.radius) for world in worlds.values()) else ""
        dot: dict[str, Any] = {"linestyle": "none", "marker": "o"}
        end = dot | {"marker": "s", "markersize": 4}
        handles = [
            Line2D([], [], color=STAYS, label=f"client that stays{reach}", **dot),
            Line2D([], [], color=MOBILE, label="client that moves", **dot),
            Line2D([], [], color=MOBILE, label=f"its place after {rounds} rounds", **end),
        ]
        across = 3 if len(shown) > 1 else 1
        drawn.legend(handles=handles, loc="outside lower center", ncols=across, columnspacing=1.2, handletextpad=0.2)
    return drawn


def path_rounds(run: Run) -> int:
    """Return the number of rounds of movement in the figure; it is smaller where clients move far, for readability."""
    rounds = PATH_ROUNDS
    for p, world in worlds_of(run).items():
        path = run.array(p, "position")
        if path is None or world.kind == CIRCLE:
            continue
        steps = np.hypot(*np.moveaxis(np.diff(path[: PATH_ROUNDS + 1].astype(float), axis=0), -1, 0))
        so_far = np.cumsum(np.nansum(steps, axis=1))
        allowed = int((so_far <= ALL_PATHS * np.hypot(*(world.high - world.low))).sum())
        rounds = min(rounds, len(path) - 1, max(3, allowed))
    return rounds


def draw_ground(axes: Any, world: World) -> None:
    """Draw the streets, the road-side units and the edges of a world, and set the limits of the axes."""
    if len(world.streets):
        streets = list(world.streets.reshape(-1, 2, 2))
        axes.add_collection(LineCollection(streets, colors=STREET, linewidths=1.5, zorder=0))
    if len(world.units):
        axes.add_collection(discs(axes, world.units, world.unit_range, f"{UNIT}22", UNIT))
        axes.scatter(*world.units.T, marker="^", s=50, color=UNIT, zorder=5, edgecolors="white", linewidths=0.6)
    margin = 0.7 if world.kind == GRID else 0.03 * float(np.max(world.high - world.low))
    (left, low), (right, high) = world.low - margin, world.high + margin
    axes.set(xlim=(left, right), ylim=(low, high), aspect="equal")
    if world.kind == CIRCLE:
        axes.set_axis_off()
    elif world.kind == GRID and world.walls:
        sides = zip((axes.set_xticks, axes.set_yticks), world.low, world.high)
        for set_ticks, first, last in sides:
            set_ticks(np.arange(first, last + 0.5, max(1, round(last / 6))))


def discs(axes: Any, places: np.ndarray, radius: float, face: str, edge: str) -> EllipseCollection:
    """Return discs of a radius in the unit of the axes around places [K, 2]; none for an infinite radius."""
    across = np.full(len(places) if np.isfinite(radius) else 0, 2 * radius)
    options: dict[str, Any] = {"units": "xy", "offsets": places[: len(across)], "offset_transform": axes.transData}
    return EllipseCollection(
        across, across, np.zeros(len(across)), facecolor=face, edgecolor=edge, linewidth=0.8, **options
    )


def draw_route(axes: Any, world: World, path: np.ndarray, colour: str) -> None:
    """Draw the paths [R + 1, M, 2] of M clients, without the steps across an edge where who leaves comes in again."""
    steps = np.stack([path[:-1], path[1:]], axis=2).swapaxes(0, 1).reshape(-1, 2, 2)
    steps = steps[~world.leaps(steps[:, 0], steps[:, 1])]
    axes.add_collection(LineCollection(list(steps), colors=colour, linewidths=1.1, alpha=0.7, zorder=2))


def _draw_places(axes: Any, run: Run, p: int, world: World, colour: str, rounds: int) -> None:
    """Draw discs of clients that stay, paths of clients that move, and all first positions."""
    path, mobile = run.array(p, "position"), run.array(p, "is_mobile")
    assert path is not None
    # Under static mobility no client moved, though the first ones could.
    moves = (np.ones(path.shape[1], bool) if mobile is None else mobile.astype(bool)) & np.any(path != path[:1])
    path = path[: rounds + 1].astype(float)
    stays, starts, ends = path[0, ~moves], path[0, moves], path[-1, moves]
    axes.add_collection(discs(axes, stays, world.radius, "#7f7f7f10", REACH))
    draw_route(axes, world, path[:, moves], colour)
    many = path.shape[1] > MANY
    rim = {"edgecolors": "white", "linewidths": 0 if many else 0.6}
    axes.scatter(*ends.T, s=1 if many else 24, color=colour, marker="s", zorder=3, **rim)
    numbered = path.shape[1] <= 40
    for places, fill in ((stays, STAYS), (starts, colour)):
        axes.scatter(*places.T, s=100 if numbered else 2 if many else 18, color=fill, zorder=4, **rim)
    for i, place in enumerate(path[0] if numbered else ()):
        axes.text(*place, str(i), color="white", fontsize=6, zorder=5, **INSIDE)


def _draw_circle(axes: Any, run: Run, p: int, world: World, colour: str, rounds: int) -> None:
    """Draw clients without places on a circle. A link is the darker, the more of the first rounds have it."""
    clients = clients_of(run, p)
    places, recorded = circle(clients), run.history(p, "links")
    if recorded is not None:
        hears = np.unpackbits(recorded[0, :LINK_ROUNDS], axis=2, count=clients).mean(axis=0)
        either = np.triu(np.maximum(hears, hears.T), 1)
        i, j = np.nonzero(either)
        if i.size:  # matplotlib takes no empty list of shades
            shades = 0.1 + 0.6 * either[i, j] / either.max()
            lines = list(np.stack([places[i], places[j]], axis=1))
            axes.add_collection(LineCollection(lines, colors=colour, linewidths=0.8, alpha=shades))
    axes.scatter(*places.T, s=100 if clients <= 40 else 18, color=STAYS, zorder=4, edgecolors="white", linewidths=0.6)
    for k, place in enumerate(places if clients <= 40 else ()):
        axes.text(*place, str(k), color="white", fontsize=6, zorder=5, **INSIDE)
