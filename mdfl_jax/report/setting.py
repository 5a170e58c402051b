"""The setting of a study: the worlds of its points, its main settings, and how it was made."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core.papers import Paper
from mdfl_jax.core.sweep_text import labels_for, labels_of, show
from mdfl_jax.report.sheet import format_number
from mdfl_jax.results.axes import as_number, short, spaced
from mdfl_jax.results.results import Results, kept
from mdfl_jax.storage.study_files import no_streets

GRID, PLANE, CIRCLE = "grid", "plane", "circle"
BY_FILE = ("trace", "contacts")  # in these worlds the positions determine the map's size


def _none() -> np.ndarray:
    return np.zeros((0, 2))


@dataclass(frozen=True)
class World:
    """The world of one sweep point.

    Attributes:
      kind: "grid"; "plane", whose unit is metres; or "circle", if the clients have no places and are drawn on a circle.
      low, high: [2] the corners of the area with all that is on the map.
      walls: whether this area is the whole world, so that nobody can leave it.
      wraps: whether who leaves the area on one side enters it on the other side.
      radius: the range of a client's radio; infinite if the radius or the world does not limit who hears whom.
      swept: whether two clients are in contact if they come within the radius at any time of their movement.
      units: [U, 2] places of the road-side units.
      unit_range: the range of a unit.
      streets: [K, 4] straight pieces of streets, each from (x, y) to (x, y).
    """

    kind: str
    low: np.ndarray
    high: np.ndarray
    walls: bool = False
    wraps: bool = False
    radius: float = float("inf")
    swept: bool = False
    units: np.ndarray = field(default_factory=_none)
    unit_range: float = float("inf")
    streets: np.ndarray = field(default_factory=no_streets)

    def leaps(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Tell which steps [..., 2] from a place to another cross the edge of the area and come in at the other."""
        far = np.abs(after - before) > (self.high - self.low) / 2
        return far.any(axis=-1) & self.wraps


def in_plane(path: np.ndarray | None) -> bool:
    """Tell whether positions [R + 1, N, 2] are on the plane; positions on a grid are whole numbers."""
    parts = () if path is None else (path[:1], path)  # the first places alone mostly tell it
    return any(bool(np.any(np.isfinite(part) & (part != np.round(part)))) for part in parts)


def met_by_pattern(study: Results, p: int) -> bool:
    """Tell whether a pattern alone determines who meets the server and whom, so that places have no meaning."""
    return study.value(p, "server.pattern") not in (None, "", "roadside")


def place_of(study: Results, p: int) -> str | None:
    """Return the world in which the clients of a sweep point move, a name of `network.world` other than auto."""
    named, (part, of_part) = study.value(p, "network.world"), study.study_of(p)
    return part.numbers(of_part).get("network.world") if named in (None, "auto") else named


def units_of(text: str | None) -> np.ndarray:
    """Parse the positions of road-side units, 'x,y; x,y; ...', into an array [U, 2]."""
    return np.array([part.split(",") for part in (text or "").split(";") if part.strip()], float).reshape(-1, 2)


@kept
def worlds_of(study: Results) -> dict[int, World]:
    """Return the worlds of the sweep points that have one, by their index.

    Maps of worlds without walls show the same area, so that they can be compared side by side.
    """
    worlds = {p: world for p in range(len(study.points)) if (world := _world_of(study, p)) is not None}
    planes = [world for world in worlds.values() if world.kind == PLANE]
    if not planes:
        return worlds
    low, high = np.min([world.low for world in planes], axis=0), np.max([world.high for world in planes], axis=0)
    return {
        p: world if world.walls or world.kind != PLANE else replace(world, low=low, high=high)
        for p, world in worlds.items()
    }


def _world_of(study: Results, p: int) -> World | None:
    """Return the world of a sweep point.

    It is None if the clients have no places and nothing is recorded of their links or of their meetings with a server.
    """
    path = None if met_by_pattern(study, p) else study.first_seed(p, "position")
    if path is None or _is_circle(path):
        recorded = any(study.has(p, name) for name in ("links", "met_server"))
        return World(CIRCLE, np.full(2, -1.0), np.full(2, 1.0)) if recorded or path is not None else None
    follows, graph = place_of(study, p) in BY_FILE, bool(study.value(p, "network.graph"))
    by_file = graph or follows
    kind = PLANE if in_plane(path) or by_file else GRID
    low, high = np.nanmin(path, (0, 1)).astype(float), np.nanmax(path, (0, 1)).astype(float)
    size = [study.value(p, f"motion.{side}") for side in ("width", "height")]
    side = study.value(p, "network.grid_size")
    walls = not by_file and (side is not None if kind == GRID else None not in size)
    if walls:
        low, high = (np.ones(2), np.full(2, float(side))) if kind == GRID else (np.zeros(2), np.array(size, float))
    streets = study.study_of(p)[0].streets if follows else no_streets()
    units = units_of(study.value(p, "server.units")) if study.value(p, "server.pattern") == "roadside" else _none()
    for places in (units, *([streets.reshape(-1, 2)] if not walls else [])):
        if len(places):
            low, high = np.minimum(low, places.min(0)), np.maximum(high, places.max(0))
    return World(
        kind,
        low,
        np.where(high > low, high, low + 1),  # an area without extent cannot be drawn
        walls,
        walls and study.value(p, "motion.boundary") == "wrap",
        float("inf") if graph else _reach(study.value(p, "network.radius")),
        study.value(p, "network.contact") == "swept",
        units,
        _reach(study.value(p, "server.unit_range")),
        streets,
    )


def circle(clients: int) -> np.ndarray:
    """Return places for clients without places, [N, 2]: on the unit circle, clockwise from the top."""
    angle = 2 * np.pi * np.arange(clients) / clients
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)


def _is_circle(path: np.ndarray) -> bool:
    """Tell whether positions are those of clients without places, who stand on the unit circle."""
    return bool(np.allclose(np.hypot(*path[0].T), 1, atol=1e-5) and np.all(path == path[:1]))


def _reach(value: object) -> float:
    """Return a range of a configuration, in which null stands for infinity, too."""
    found = as_number(value)
    return float("inf") if found is None else found


_MANY = 9  # of more numbers, only the first and the last are named
NAMED = {
    "network.num_clients": "clients",
    "network.num_mobile": "mobile clients",
    "network.mobility": "mobility",
    "trace.file": "trace",
    "network.graph": "graph",
    "network.grid_size": "side of the grid",
    "network.radius": "contact radius",
    "network.max_step": "longest step",
    "server.pattern": "meetings with a server",
    "data.name": "data",
    "data.partition": "partition",
    "data.alpha": "alpha",
    "model.name": "model",
    "algorithm.name": "algorithm",
    "algorithm.lr": "learning rate",
    "algorithm.aggregation": "aggregation",
    "network.mixing": "mixing weights",
    "attack.name": "attack",
    "rounds": "rounds",
    "eval_every": "rounds between evaluations",
    "eval_clients": "clients in an evaluation",
    "eval_samples": "test samples in an evaluation",
}
"""The settings that the page names, in this order, and then what else a sweep varies."""
IN_SPACE = ("network.num_mobile", "network.mobility", "network.grid_size", "network.radius", "network.max_step")
OF_DATA_SETS = ("data.partition", "data.alpha", "model.name")


def describe_setting(study: Results) -> list[tuple[str, str]]:
    """Return the main settings of a study, and all that it varies, as pairs of a name and the values in words."""
    axes, points = {axis.path: axis for axis in study.axes}, range(len(study.points))
    labels = labels_of(study.config.get("labels") or "")

    def has(path: str) -> bool:
        return all(study.value(p, path) for p in points)

    def values(path: str) -> str:
        if path not in axes:
            text, named = PurePath(show(study.value(0, path))).name, labels_for(labels, path)
            return short(named[text]) if text in named else spaced(text)
        if len(numbers := list(axes[path].numbers)) > _MANY:
            return f"{len(numbers)} values from {numbers[0]} to {numbers[-1]}"
        return ", ".join(map(spaced, axes[path].distinct))

    unused: set[str] = set()
    if all(met_by_pattern(study, p) for p in points):
        unused |= {*IN_SPACE, "network.mixing", "algorithm.aggregation"}
    if has("network.graph"):
        unused |= {*IN_SPACE}
    if not any(world.kind == GRID for world in worlds_of(study).values()):
        unused |= {"network.grid_size", "network.max_step"}
    if has("data.dimension"):  # each client draws its own samples
        unused |= {*OF_DATA_SETS}
    named = {path: name for path, name in NAMED.items() if path in axes or (path not in unused and has(path))}
    named |= {path: spaced(axis.name) for path, axis in axes.items() if path not in NAMED}
    seeds = len(study.manifest["seeds"])
    return [*((name, values(path)) for path, name in named.items()), ("seeds", str(seeds))]


class Entry(NamedTuple):
    """One line of how a study was made; a text that is code may have a button that copies it."""

    name: str
    text: str | None
    is_code: bool = False
    is_copied: bool = False


class Making(NamedTuple):
    """How one study was made: its name (empty if the page has one study), its entries and its configuration as JSON."""

    name: str
    entries: list[Entry]
    config: str


def describe_making(study: Results) -> list[Making]:
    """Return how a study was made, or each of the studies that are compared."""
    studies = {str(one.workdir): one for one in study.studies} or {"": study}
    return [Making(name, _entries(one), _config(one)) for name, one in studies.items()]


def _entries(study: Results) -> list[Entry]:
    made = study.manifest
    devices = [f"{count} x {name}" if count > 1 else name for name, count in _kinds(made.get("devices") or [])]
    seconds = [f"{format_number(made.get(f'{part}_seconds'))} s to {part}" for part in ("compile", "run")]
    versions = ", ".join(f"{name} {version}" for name, version in (made.get("versions") or {}).items())
    seeds = made["seeds"]
    in_a_row = len(seeds) > 2 and seeds == [*range(seeds[0], seeds[0] + len(seeds))]
    files = "summary.json, metrics.jsonl, history.npz, tables/*.md, *.tex and *.csv, figures/*.pdf and *.csv"
    return [
        Entry("Command", made.get("command"), is_code=True, is_copied=True),
        Entry("Commit", made.get("commit"), is_code=True, is_copied=True),
        Entry("Versions", versions),
        Entry("Devices", ", ".join(devices)),
        Entry("Time", ", ".join(seconds)),
        Entry("Seeds", f"{seeds[0]} to {seeds[-1]}" if in_a_row else ", ".join(map(str, seeds))),
        Entry("Status", made.get("status")),
        Entry("What to cite", _cited(made.get("cite") or {})),
        Entry("Files beside this page", files, is_code=True),
    ]


def _cited(citations: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the papers that the entries of a study cite, with what each is cited for; "" for none."""
    listed = [f"{Paper(key, of['entry']).short} ({'; '.join(of['for'])})" for key, of in citations.items()]
    return ". ".join([*listed, "mdfl cite FOLDER prints the BibTeX entries"]) if listed else ""


def _config(study: Results) -> str:
    return json.dumps({"config": study.config, "points": study.manifest.get("points")}, indent=2)


def _kinds(devices: list[Any]) -> list[tuple[str, int]]:
    """Return the kinds of devices with the number of each kind, so that eight cores need only one line."""
    return list(Counter(str(device).rstrip("0123456789").rstrip("_:") or str(device) for device in devices).items())
