"""What a map needs to know of a sweep point's world: its area, the range of a radio, road-side units and streets."""

from dataclasses import dataclass, field, replace

import numpy as np

from mdfl_jax.report.read import ReportData, kept
from mdfl_jax.report.settings import as_number
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


def met_by_pattern(study: ReportData, p: int) -> bool:
    """Tell whether a pattern alone determines who meets the server and whom, so that places have no meaning."""
    return study.value(p, "server.pattern") not in (None, "", "roadside")


def place_of(study: ReportData, p: int) -> str | None:
    """Return the world in which the clients of a sweep point move, a name of `network.world` other than auto."""
    named, (part, of_part) = study.value(p, "network.world"), study.study_of(p)
    return part.numbers(of_part).get("network.world") if named in (None, "auto") else named


def units_of(text: str | None) -> np.ndarray:
    """Parse the positions of road-side units, 'x,y; x,y; ...', into an array [U, 2]."""
    return np.array([part.split(",") for part in (text or "").split(";") if part.strip()], float).reshape(-1, 2)


@kept
def worlds_of(study: ReportData) -> dict[int, World]:
    """Return the worlds of the sweep points that have one, by their index.

    Maps of worlds without walls show the same area, so that they can be compared side by side.
    """
    worlds = {p: world for p in range(len(study.points)) if (world := world_of(study, p)) is not None}
    planes = [world for world in worlds.values() if world.kind == PLANE]
    if not planes:
        return worlds
    low, high = np.min([world.low for world in planes], axis=0), np.max([world.high for world in planes], axis=0)
    return {
        p: world if world.walls or world.kind != PLANE else replace(world, low=low, high=high)
        for p, world in worlds.items()
    }


def world_of(study: ReportData, p: int) -> World | None:
    """Return the world of a sweep point.

    It is None if the clients have no places and nothing is recorded of their links or of their meetings with a server.
    """
    path = None if met_by_pattern(study, p) else study.array(p, "position")
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
