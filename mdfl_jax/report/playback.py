"""The data of the playback map: where the clients of some sweep points are in each round, and what happens to them.

All is that of the first seed. Places are whole numbers of 16 bits, as differences from round to round, and links are
bits of which only the changes are stored, so that the text of the page is short. `assets/map_data.js` reverses this.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.report.pack import LEVELS, MISSING, packed
from mdfl_jax.report.read import Run
from mdfl_jax.report.recorded import rounds_done
from mdfl_jax.report.style import main_axis
from mdfl_jax.report.world import CIRCLE, World, circle, worlds_of

MOST_POINTS = 20  # of more sweep points, a choice is on the page
BUDGET = 12_000_000  # the length of the text of all sweep points together; longer ones are shown in fewer rounds
RELAYS = ("relay_upload", "relay_download")  # arrays [S, R, N]: which client relayed for each; -1 for none
OF_ROUNDS = ("links", "present", "met_server", *RELAYS)  # arrays [S, R, ...]: what happens when a round begins
OF_PLACES = ("destination", "centre")  # arrays [S, R, N, 2]: places that hold after the movement of a round
COLOURED = ("accuracy", "loss")  # the colour of a client is the first of these metrics that was measured


def shown_points(run: Run, most: int = MOST_POINTS) -> list[int]:
    """Choose the sweep points of which the page has a playback.

    All are chosen if they are few. Otherwise the baseline, the best one and one of each value of the main axis are,
    then others at equal distances.

    Args:
      run: the study.
      most: the largest number of sweep points.

    Returns:
      The indices of the points that have a world, in increasing order.
    """
    placed = list(worlds_of(run))
    if len(placed) <= most:
        return placed
    axis, start = main_axis(run), first_pair(run, placed)
    values = list(axis.texts) if axis else []
    of_each = [next(p for p in placed if values[p] == value) for value in dict.fromkeys(values[p] for p in placed)]
    if len(of_each) > most - len(start):
        of_each = [of_each[i] for i in np.linspace(0, len(of_each) - 1, most - len(start)).round().astype(int)]
    chosen = list(dict.fromkeys([*start, *of_each]))
    others = [p for p in placed if p not in chosen]
    spread = np.linspace(0, len(others) - 1, max(0, most - len(chosen))).round().astype(int)
    return sorted({*chosen, *(others[i] for i in spread)})


def first_pair(run: Run, points: list[int]) -> list[int]:
    """Choose the one or two sweep points that the map shows first: the baseline and the best of the others.

    Args:
      run: the study.
      points: the indices to choose from, at least one.
    """
    ids = [run.points[p]["id"] for p in points]
    base = points[ids.index(run.summary["baseline"])] if run.summary.get("baseline") in ids else points[0]
    means = {p: (run.points[p].get("final_accuracy") or {}).get("mean") for p in points if p != base}
    known = {p: mean for p, mean in means.items() if mean is not None and np.isfinite(mean)}
    best = [max(known, key=lambda p: known[p])] if known else list(means)[-1:]
    return [base, *best]


def playback(run: Run) -> dict[str, Any]:
    """Return the data of the map, for `assets/map.js`.

    Returns:
      "points", the sweep points with their world and their arrays; "labels", the different label counts [N, C] of
      these points; "start", which of the points are shown first; and "colour", the metric of the clients' colours.
    """
    chosen, worlds = shown_points(run), worlds_of(run)
    metric = coloured_by(run, chosen)
    labels: list[np.ndarray] = []
    points: list[dict[str, Any]] = []
    for p in chosen:
        point: dict[str, Any] = {"point": p, "world": _told(worlds[p])}
        point |= _of_point(run, p, worlds[p], BUDGET // len(chosen))
        done = rounds_done(run, p)
        point["stopped"] = done if done is not None and done < point["frames"][-1] else None
        curve = run.curves[run.points[p]["id"]]
        point |= {"evaluated": curve.rounds, "judged": curve.accuracy[0]}
        points.append(point | {"labels": _index(labels, run.array(p, "label_counts"))})
    colour = None
    if metric:
        values = {p: first_history(run, p, metric) for p in chosen}
        finite = np.concatenate([v[np.isfinite(v)] for v in values.values() if v is not None])
        low, high = float(finite.min()), float(finite.max())
        shown = next(m.described for m in BUILT_IN if m.name == metric)
        colour = {"name": metric, "title": shown.title, "percent": metric == "accuracy", "low": low, "high": high}
        for point in points:
            of_point = values[point["point"]]
            point["values"] = None if of_point is None else quantised(of_point, low, high)
    start = [chosen.index(p) for p in first_pair(run, chosen)]
    return {"points": points, "labels": [of.astype(np.uint32) for of in labels], "start": start, "colour": colour}


def coloured_by(run: Run, points: Sequence[int]) -> str | None:
    """Return the metric of the clients' colours: the first of `COLOURED` that a point has; None if none has one."""
    return next((name for name in COLOURED if any(_measured(run, p, name) for p in points)), None)


def without_links(data: Mapping[str, Any]) -> list[int]:
    """Return the sweep points whose links the page cannot compute: swept contacts need the places of every round."""
    points = (of for of in data["points"] if of["world"]["swept"] and "links" not in of)
    return [of["point"] for of in points if of["stride"] > 1]


def strides(data: Mapping[str, Any]) -> int:
    """Return the largest distance between two rounds of a playback; 1 if all rounds are there."""
    return max(point["stride"] for point in data["points"])


def _of_point(run: Run, p: int, world: World, share: int) -> dict[str, Any]:
    """Return the arrays of a sweep point, of so few rounds that their text is not longer than a share."""
    path = None if world.kind == CIRCLE else run.array(p, "position")
    recorded = {name: array for name in OF_ROUNDS if (array := first_history(run, p, name)) is not None}
    if "present" in recorded and recorded["present"].all():
        del recorded["present"]
    marked = {name: array for name in OF_PLACES if (array := first_history(run, p, name)) is not None}
    if path is None:
        path = np.repeat(circle(clients_of(run, p))[None], 1 + max((len(of) for of in recorded.values()), default=0), 0)
    rounds, mobile = len(path) - 1, run.array(p, "is_mobile")
    moves = np.any(path != path[:1], axis=(0, 2)) if mobile is None else mobile.astype(bool) & np.any(path != path[:1])

    def thinned(stride: int) -> dict[str, Any]:
        frames = np.unique(np.append(np.arange(0, rounds + 1, stride), rounds))
        found: dict[str, Any] = {"stride": stride, "frames": frames.astype(np.uint32), "mobile": moves}
        found["position"] = changes(quantised(path[frames].astype(float), world.low, world.high))
        within = frames[frames < rounds]
        for name, array in recorded.items():
            found[name] = coded_links(array[within], path.shape[1]) if name == "links" else _coded(array[within])
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
    """Return values of some rounds [T, N]; yes or no are packed bits, [T, ceil(N/8)]."""
    return np.packbits(array, axis=1) if array.dtype == bool else array


def coded_links(links: np.ndarray, clients: int) -> dict[str, Any]:
    """Return the links of some rounds in a form that compresses well.

    Args:
      links: [T, N, ceil(N/8)] uint8, packed bits; the bits of row i are the clients that i hears.
      clients: N.

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


def clients_of(run: Run, p: int) -> int:
    """Return the number of clients of a sweep point."""
    known = run.array(p, "position")
    return known.shape[1] if known is not None else int(run.value(p, "network.num_clients"))


def first_history(run: Run, p: int, name: str) -> np.ndarray | None:
    """Return an array of the first seed, or None if it was not recorded or is empty."""
    found = run.history(p, name)
    return None if found is None or not found[0].size else found[0]


def _measured(run: Run, p: int, name: str) -> bool:
    found = first_history(run, p, name)
    return found is not None and found.ndim == 2 and bool(np.isfinite(found).any())


def _index(kept: list[np.ndarray], array: np.ndarray | None) -> int | None:
    """Return the index of an array among those that are kept, and keeps it if none is equal."""
    if array is None:
        return None
    found = next((i for i, other in enumerate(kept) if np.array_equal(other, array)), None)
    if found is None:
        kept.append(array)
    return len(kept) - 1 if found is None else found


def _length(tree: Any) -> int:
    """Return the length of the text of all arrays in a tree."""
    if isinstance(tree, np.ndarray):
        return len(packed(tree)["data"])
    return sum(map(_length, tree.values())) if isinstance(tree, dict) else 0


def _told(world: World) -> dict[str, Any]:
    names = ("kind", "walls", "wraps", "swept", "radius", "unit_range")  # an infinite number becomes null
    lists = {name: getattr(world, name).astype(float).tolist() for name in ("low", "high", "units")}
    return {name: getattr(world, name) for name in names} | lists | {"streets": world.streets.astype(np.float32)}
