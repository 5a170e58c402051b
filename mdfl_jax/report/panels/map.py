"""The map: on the page a playback of all rounds, in files the first positions of the clients and their first moves.

All is that of the first seed. On the page, places are whole numbers of 16 bits, as differences from round to round, and
links are bits of which only the changes are stored, so that the text of the page is short. `assets/map.js`
reverses this.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.report.registry import LEVELS, MISSING, Chart, encode_array, figure
from mdfl_jax.report.setting import CIRCLE, GRID, World, circle, worlds_of
from mdfl_jax.report.style import (
    INSIDE,
    MOBILE,
    STAYS,
    describe_first_seed,
    legend_columns,
    looks,
    main_axis,
    make_panels,
)
from mdfl_jax.results.results import Results, rounds_done

_MOST_POINTS = 20  # of more sweep points, a choice is on the page
BUDGET = 12_000_000  # the length of the text of all sweep points together; longer ones are shown in fewer rounds
RELAYS = ("relay_upload", "relay_download")  # arrays [S, R, N]: which client relayed for each; -1 for none
OF_ROUNDS = ("present", "met_server", *RELAYS)  # arrays [S, R, ...]: what happens when a round begins
LINKS = ("links", "rejected")  # arrays [S, R, N, ceil(N/8)], bits: who heard whom, and who rejected whose model
OF_PLACES = ("destination", "centre")  # arrays [S, R, N, 2]: places that hold after the movement of a round
COLOURED = ("accuracy", "loss")  # the colour of a client is the first of these metrics that was measured


def shown_points(study: Results, most: int = _MOST_POINTS) -> list[int]:
    """Return the sweep points of which the page has a playback, by index in increasing order.

    These are all that have a world if they are few. Otherwise the baseline, the best one and one of each value of the
    main axis are chosen, then others at equal distances.
    """
    placed = list(worlds_of(study))
    if len(placed) <= most:
        return placed
    axis, chosen = main_axis(study), first_pair(study, placed)
    first = {axis.texts[p] if axis else "": p for p in placed[::-1]}  # of each value
    for others in (sorted(first.values()), placed):
        left = [p for p in others if p not in chosen]
        count = min(most - len(chosen), len(left))
        chosen += [left[i] for i in np.linspace(0, len(left) - 1, count).round().astype(int)]
    return sorted(chosen)


def first_pair(study: Results, points: list[int]) -> list[int]:
    """Return the one or two of some sweep points that the map shows first: the baseline and the best of the others."""
    ids = [study.points[p] for p in points]
    base = points[ids.index(study.summary["baseline"])] if study.summary.get("baseline") in ids else points[0]
    means = {p: (study.outcomes[p].get("final_accuracy") or {}).get("mean") for p in points if p != base}
    known = {p: mean for p, mean in means.items() if mean is not None and np.isfinite(mean)}
    best = [max(known, key=lambda p: known[p])] if known else list(means)[-1:]
    return [base, *best]


def playback(study: Results) -> dict[str, Any]:
    """Return the data of the map, for `assets/map.js`.

    "points" are the sweep points with their world and their arrays; "labels" the different label counts [N, C] of these
    points; "start" says which of the points are shown first; and "colour" is the metric of the clients' colours.
    """
    chosen, worlds = shown_points(study), worlds_of(study)
    metric = coloured_by(study, chosen)
    labels: list[np.ndarray] = []
    points: list[dict[str, Any]] = []
    for p in chosen:
        point: dict[str, Any] = {"point": p, "world": _world_data(worlds[p])}
        point |= _of_point(study, p, worlds[p], BUDGET // len(chosen))
        done = rounds_done(study, p)
        point["stopped"] = done if done is not None and done < point["frames"][-1] else None
        curve = study.curve(p)
        point |= {"evaluated": curve.rounds, "judged": curve.accuracy[0]}
        points.append(point | {"labels": _index(labels, study.first_seed(p, "label_counts"))})
    colour = None
    if metric:
        values = {p: study.first_seed(p, metric) for p in chosen}
        finite = np.concatenate([v[np.isfinite(v)] for v in values.values() if v is not None])
        low, high = float(finite.min()), float(finite.max())
        shown = next(m.described for m in BUILT_IN if m.name == metric)
        colour = {"name": metric, "title": shown.title, "percent": metric == "accuracy", "low": low, "high": high}
        for point in points:
            of_point = values[point["point"]]
            point["values"] = None if of_point is None else quantised(of_point, low, high)
    start = [chosen.index(p) for p in first_pair(study, chosen)]
    return {"points": points, "labels": [of.astype(np.uint32) for of in labels], "start": start, "colour": colour}


def coloured_by(study: Results, points: Sequence[int]) -> str | None:
    """Return the metric of the clients' colours: the first of `COLOURED` that a point has; None if none has one."""
    return next((name for name in COLOURED if any(_measured(study, p, name) for p in points)), None)


def without_links(data: Mapping[str, Any]) -> list[int]:
    """Return the sweep points whose links the page cannot compute: swept contacts need the places of every round."""
    points = (of for of in data["points"] if of["world"]["swept"] and "links" not in of)
    return [of["point"] for of in points if of["stride"] > 1]


def strides(data: Mapping[str, Any]) -> int:
    """Return the largest distance between two neighbouring rounds of a playback; 1 if it has all rounds."""
    return max(point["stride"] for point in data["points"])


def _of_point(study: Results, p: int, world: World, share: int) -> dict[str, Any]:
    """Return the arrays of a sweep point. Rounds are left out until their text is not longer than a share."""
    path = None if world.kind == CIRCLE else study.first_seed(p, "position")
    recorded = {name: array for name in OF_ROUNDS if (array := study.first_seed(p, name)) is not None}
    if (heard := study.heard(p)) is not None and heard[0].size:
        recorded["links"] = heard[0]
    if (rejected := study.first_seed(p, "rejected")) is not None:
        recorded["rejected"] = rejected
    if "present" in recorded and recorded["present"].all():
        del recorded["present"]
    marked = {name: array for name in OF_PLACES if (array := study.first_seed(p, name)) is not None}
    if path is None:
        path = np.repeat(
            circle(clients_of(study, p))[None], 1 + max((len(of) for of in recorded.values()), default=0), 0
        )
    rounds, mobile = len(path) - 1, study.first_seed(p, "is_mobile")
    moves = np.any(path != path[:1], axis=(0, 2)) if mobile is None else mobile.astype(bool) & np.any(path != path[:1])

    def thinned(stride: int) -> dict[str, Any]:
        frames = np.unique(np.append(np.arange(0, rounds + 1, stride), rounds))
        found: dict[str, Any] = {"stride": stride, "frames": frames.astype(np.uint32), "mobile": moves}
        if (attack := _attackers_of(study, p)) is not None:
            found["attackers"] = attack
        found["position"] = changes(quantised(path[frames].astype(float), world.low, world.high))
        within = frames[frames < rounds]
        for name, array in recorded.items():
            coded = coded_links(array[within], path.shape[1]) if name in LINKS else _coded(array[within])
            found[name] = coded
        for name, array in marked.items():
            # There is no such place before the first round, and few clients or none have one.
            rows = np.concatenate([np.full_like(array[:1], np.nan), array])[frames]
            rows = rows[:, np.isfinite(rows).any(axis=(0, 2))] if name == "centre" else rows
            if np.isfinite(rows).any():
                found[name] = changes(quantised(rows, world.low, world.high))
        return found

    found = thinned(1)
    while (size := _length(found)) > share and found["stride"] < rounds:
        found = thinned(min(rounds, max(found["stride"] + 1, found["stride"] * size // share)))
    return found


def _coded(array: np.ndarray) -> np.ndarray:
    """Return values of some rounds [T, N]. Values that are true or false become packed bits, [T, ceil(N/8)]."""
    return np.packbits(array, axis=1) if array.dtype == bool else array


def coded_links(links: np.ndarray, clients: int) -> dict[str, Any]:
    """Return the links of some rounds in a form that compresses well.

    The links are packed bits [T, N, ceil(N/8)]; the bits of row i are the clients that i hears.

    Returns:
      "mutual": whether every link goes both ways; then there are only the pairs i < j, row by row, and otherwise all
      N x N pairs. "changes": whether a round has the changes since the round before. "bits": [T, ...] uint8.
    """
    hears = np.unpackbits(links, axis=2, count=clients).astype(bool)
    mutual = bool(np.array_equal(hears, hears.transpose(0, 2, 1)))
    flat = hears[:, *np.triu_indices(clients, 1)] if mutual else hears.reshape(len(hears), -1)
    changed = flat.copy()
    changed[1:] ^= flat[:-1]
    fewer = changed.sum() < flat.sum()
    return {"mutual": mutual, "changes": bool(fewer), "bits": np.packbits(changed if fewer else flat, axis=1)}


def quantised(values: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Return values between a low and a high one as whole numbers, uint16: 0 to `LEVELS`, and `MISSING` for NaN."""
    extent = np.asarray(high, float) - low
    share = (values - low) / np.where(extent > 0, extent, 1)
    whole = np.clip(np.round(share * LEVELS), 0, LEVELS)
    return np.where(np.isfinite(share), whole, MISSING).astype(np.uint16)


def changes(whole: np.ndarray) -> np.ndarray:
    """Return the differences of whole numbers [T, n, 2] from time to time, modulo 2^16, in the order [n, 2, T].

    The values of one client follow each other, since they are alike. The first difference is the first value.
    """
    ordered = np.ascontiguousarray(whole.transpose(1, 2, 0))
    return np.diff(ordered, axis=-1, prepend=np.zeros_like(ordered[..., :1]))


def clients_of(study: Results, p: int) -> int:
    """Return the number of clients of a sweep point."""
    known = study.first_seed(p, "position")
    return known.shape[1] if known is not None else int(study.value(p, "network.num_clients"))


def _attackers_of(study: Results, p: int) -> np.ndarray | None:
    """Return who attacks under the first seed, [N] bool; None if nobody does."""
    found = study.first_seed(p, "attacker")
    return None if found is None or not found[-1].any() else found[-1].astype(bool)


def mark_attackers(axes: Any, places: np.ndarray, attack: np.ndarray | None) -> Any:
    """Draw a diamond around each attacker at places [N, 2], which is seen in black and white, too."""
    size = 260 if len(places) <= 40 else 60
    shown = places[attack] if attack is not None else places[:0]
    return axes.scatter(*shown.T, marker="D", s=size, facecolors="none", edgecolors="black", linewidths=1.5, zorder=6)


def _measured(study: Results, p: int, name: str) -> bool:
    found = study.first_seed(p, name)
    return found is not None and found.ndim == 2 and bool(np.isfinite(found).any())


def _index(kept: list[np.ndarray], array: np.ndarray | None) -> int | None:
    """Return the index of an array among those that are kept. If none of them is equal, keep it too."""
    if array is None:
        return None
    found = next((i for i, other in enumerate(kept) if np.array_equal(other, array)), None)
    if found is None:
        kept.append(array)
    return len(kept) - 1 if found is None else found


def _length(tree: Any) -> int:
    """Return the length of the text of all arrays in a tree."""
    if isinstance(tree, np.ndarray):
        return len(encode_array(tree)["data"])
    return sum(map(_length, tree.values())) if isinstance(tree, dict) else 0


def _world_data(world: World) -> dict[str, Any]:
    names = ("kind", "walls", "wraps", "swept", "radius", "unit_range")  # an infinite number becomes null
    lists = {name: getattr(world, name).astype(float).tolist() for name in ("low", "high", "units")}
    return {name: getattr(world, name) for name in names} | lists | {"streets": world.streets.astype(np.float32)}


PATH_ROUNDS = 40  # the longest path of a client in the figure
LINK_ROUNDS = 10  # the rounds whose links are drawn for clients without places
ALL_PATHS = 4  # the length of all paths together, as a multiple of the area's diagonal; longer ones are a tangle
MAX_MAPS = 6
_MANY = 1000  # more clients are dots without an edge
UNIT, STREET, REACH = "#D55E00", "#dddddd", "#7f7f7f50"


def _caption(study: Results, found: dict[int, World]) -> str:
    """Return the caption of the playback: what one sees, and what of it is computed, left out or not known."""
    shown = shown_points(study)
    worlds, links = [found[p] for p in shown], all(study.has(p, "links") for p in shown)
    on_circle, many = all(world.kind == CIRCLE for world in worlds), max(clients_of(study, p) for p in shown) > _MANY
    computed = not links and any(world.kind != CIRCLE and np.isfinite(world.radius) for world in worlds)
    metric, axis = coloured_by(study, shown), main_axis(study)

    def varies(path: str) -> bool:
        return any(study.value(p, path) for p in shown)

    each = f", among them each value of {axis.title}" if axis and len(axis.distinct) <= len(shown) else ""
    sentences = {
        f"The clients of {describe_first_seed(study)} in each round.": True,
        "They have no places in this study, so they stand on a circle.": on_circle,
        "Each client is a dot; those that are absent are not drawn.": many and not on_circle,
        "Squares are clients that stay, and circles are clients that move.": not many and not on_circle,
        f"The colour of a client is its {metric} at the last evaluation before.": metric,
        "Clients that were not evaluated then have no colour.": metric and varies("eval_clients"),
        "A line is a link over which a message went in the round, before the clients move.": links,
        "A diamond is around each attacker.": any(_attackers_of(study, p) is not None for p in shown),
        "A bar across a link stands before a client that rejected the model which came over it.": any(
            study.has(p, "rejected") for p in shown
        ),
        "Links were not recorded; those that you see are computed from the places and the radius.": computed,
        "Links that failed are drawn too.": computed and varies("network.link_failure"),
        "Links were not recorded.": not links and not computed,
        "Radii differ from client to client; the discs have the mean radius.": varies("network.radius_spread"),
        "A bent arrow goes from a client to the one that carries its update to the server, or from the one that brings"
        " it a model from there.": any(study.has(p, name) for p in shown for name in RELAYS),
        f"The page has {len(shown)} of {len(found)} sweep points{each}.": len(shown) < len(found),
    }
    return " ".join(sentence for sentence, applies in sentences.items() if applies)


def _chart(study: Results, _: dict[int, World]) -> Chart:
    """Return the playback; its note says if rounds are left out."""
    data = playback(study)
    stride = strides(data)
    note = "" if stride == 1 else f"To keep this page small, it has one of {stride} rounds of the longest sweep points."
    if lacking := without_links(data):
        names = ", ".join(looks(study)[p].label for p in lacking)
        note += f" Links of {names} are not drawn: contacts on the way are only known from the places of all rounds."
    return Chart("map", data | {"note": note})


def _numbers(study: Results, found: dict[int, World]) -> list[tuple[Any, ...]]:
    """Return the place of each client of the drawn points, round by round as far as their paths are drawn."""
    rows, last, labels = [("point", "round", "client", "x", "y")], path_rounds(study), study.labels
    for p in (p for p in shown_points(study, MAX_MAPS) if found[p].kind != CIRCLE):
        path = np.asarray(study.first_seed(p, "position"), float)[: last + 1]
        places = zip(np.ndindex(*path.shape[:2]), path.reshape(-1, 2).tolist())
        rows += [(labels[p], at, client, *place) for (at, client), place in places]
    return rows


@figure("map", of=worlds_of, caption=_caption, place=25, title="Map, round by round", chart=_chart, numbers=_numbers)
def world_map(study: Results, found: dict[int, World]) -> Figure:
    """Draw the first positions of the first seed's clients, and their movement in the first rounds."""
    shown = shown_points(study, MAX_MAPS)
    styles, rounds = looks(study), path_rounds(study)
    worlds = {p: world for p, world in found.items() if p in shown}
    columns, width, height = (2, 3.6, 3.75) if len(shown) < 5 else (3, 3.0, 3.5)
    extents = [world.high - world.low for world in worlds.values()]
    height = min(height, 0.6 + width * max(float(extent[1] / extent[0]) for extent in extents))
    drawn, panels = make_panels(len(shown), columns, width, height)
    for axes, (p, world) in zip(panels, worlds.items()):
        draw_ground(axes, world)
        (_draw_circle if world.kind == CIRCLE else _draw_places)(axes, study, p, world, styles[p].colour, rounds)
        axes.set_title(textwrap.fill(styles[p].label, 44))
    placed = any(world.kind != CIRCLE for world in worlds.values())
    about = f"first {rounds if placed else LINK_ROUNDS} rounds of the first seed"
    drawn.suptitle(about if placed else f"links of the {about}", fontsize=rcParams["axes.titlesize"])
    if placed:
        reach = ", disc: its reach" if any(np.isfinite(world.radius) for world in worlds.values()) else ""
        dot: dict[str, Any] = {"linestyle": "none", "marker": "o"}
        end = dot | {"marker": "s", "markersize": 4}
        handles = [
            Line2D([], [], color=STAYS, label=f"client that stays{reach}", **dot),
            Line2D([], [], color=MOBILE, label="client that moves", **dot),
            Line2D([], [], color=MOBILE, label=f"its place after {rounds} rounds", **end),
        ]
        if any(_attackers_of(study, p) is not None for p in shown):
            ring = {"marker": "D", "markerfacecolor": "none", "markeredgecolor": "black"}
            handles.append(Line2D([], [], label="attacker", **dot | ring))
        columns = legend_columns([str(handle.get_label()) for handle in handles], drawn.get_figwidth())
        drawn.legend(handles=handles, loc="outside lower center", ncols=columns, columnspacing=1.2, handletextpad=0.2)
    return drawn


def path_rounds(study: Results) -> int:
    """Return the number of rounds of movement in the figure; it is smaller where clients move far, for readability."""
    rounds = PATH_ROUNDS
    for p, world in worlds_of(study).items():
        path = study.first_seed(p, "position")
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
    """Draw the paths [R + 1, M, 2] of M clients, without steps that leave the area on one side and enter on another."""
    steps = np.stack([path[:-1], path[1:]], axis=2).swapaxes(0, 1).reshape(-1, 2, 2)
    steps = steps[~world.leaps(steps[:, 0], steps[:, 1])]
    axes.add_collection(LineCollection(list(steps), colors=colour, linewidths=1.1, alpha=0.7, zorder=2))


def _draw_places(axes: Any, study: Results, p: int, world: World, colour: str, rounds: int) -> None:
    """Draw discs of clients that stay, paths of clients that move, and all first positions."""
    path, mobile = study.first_seed(p, "position"), study.first_seed(p, "is_mobile")
    assert path is not None
    # Under static mobility no client moved, though the first ones could.
    moves = (np.ones(path.shape[1], bool) if mobile is None else mobile.astype(bool)) & np.any(path != path[:1])
    path = path[: rounds + 1].astype(float)
    stays, starts, ends = path[0, ~moves], path[0, moves], path[-1, moves]
    axes.add_collection(discs(axes, stays, world.radius, "#7f7f7f10", REACH))
    draw_route(axes, world, path[:, moves], colour)
    many = path.shape[1] > _MANY
    rim = {"edgecolors": "white", "linewidths": 0 if many else 0.6}
    axes.scatter(*ends.T, s=1 if many else 24, color=colour, marker="s", zorder=3, **rim)
    numbered = path.shape[1] <= 40
    for places, fill in ((stays, STAYS), (starts, colour)):
        axes.scatter(*places.T, s=100 if numbered else 2 if many else 18, color=fill, zorder=4, **rim)
    mark_attackers(axes, path[0], _attackers_of(study, p))
    for i, place in enumerate(path[0] if numbered else ()):
        axes.text(*place, str(i), color="white", fontsize=6, zorder=5, **INSIDE)


def _draw_circle(axes: Any, study: Results, p: int, world: World, colour: str, rounds: int) -> None:
    """Draw clients without places on a circle. The more of the first rounds have a link, the darker it is."""
    clients = clients_of(study, p)
    places, recorded = circle(clients), study.heard(p)
    if recorded is not None:
        hears = np.unpackbits(recorded[0, :LINK_ROUNDS], axis=2, count=clients).mean(axis=0)
        either = np.triu(np.maximum(hears, hears.T), 1)
        i, j = np.nonzero(either)
        if i.size:  # matplotlib takes no empty list of shades
            shades = 0.1 + 0.6 * either[i, j] / either.max()
            lines = list(np.stack([places[i], places[j]], axis=1))
            axes.add_collection(LineCollection(lines, colors=colour, linewidths=0.8, alpha=shades))
    axes.scatter(*places.T, s=100 if clients <= 40 else 18, color=STAYS, zorder=4, edgecolors="white", linewidths=0.6)
    mark_attackers(axes, places, _attackers_of(study, p))
    for k, place in enumerate(places if clients <= 40 else ()):
        axes.text(*place, str(k), color="white", fontsize=6, zorder=5, **INSIDE)
