"""The setting of a study: the worlds of its points, its experiment in words, and how it was made."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core.papers import Paper
from mdfl_jax.core.sweep_text import labels_for, labels_of, show
from mdfl_jax.report.sheet import number
from mdfl_jax.results.axes import as_number, is_attacked, short, spaced
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
    worlds = {p: world for p in range(len(study.points)) if (world := world_of(study, p)) is not None}
    planes = [world for world in worlds.values() if world.kind == PLANE]
    if not planes:
        return worlds
    low, high = np.min([world.low for world in planes], axis=0), np.max([world.high for world in planes], axis=0)
    return {
        p: world if world.walls or world.kind != PLANE else replace(world, low=low, high=high)
        for p, world in worlds.items()
    }


def world_of(study: Results, p: int) -> World | None:
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
SAMPLED = {"eval_clients": "clients", "eval_samples": "test samples"}


def describe_setting(study: Results) -> str:
    """Describe the experiment in sentences. A setting that varies is given with all its values."""
    words = _Words(study)
    sentences = (_who(words), _split(words), _meeting(words), _attack(words), _length(words), _varied(words))
    return " ".join(f"{text.strip()}." for text in sentences if text)


class _Words:
    """The settings of a study as texts; it remembers which of them a clause has used."""

    def __init__(self, study: Results) -> None:
        self.study = study
        self.axes = {axis.path: axis for axis in study.axes}
        self.used: set[str] = set()
        self.labels = labels_of(study.config.get("labels") or "")

    def value(self, path: str) -> str | None:
        """Return the value of a setting, or all its values if it varies; None if it has none."""
        self.used.add(path)
        if path not in self.axes:
            plain = self.study.value(0, path)
            text, labels = show(plain), labels_for(self.labels, path)
            return None if plain in (None, "") else short(labels[text]) if text in labels else _in_words(text)
        if len(ordered := list(self.axes[path].numbers)) > _MANY:
            return f"{len(ordered)} values from {_in_words(ordered[0])} to {_in_words(ordered[-1])}"
        *first, last = map(_in_words, dict.fromkeys(self.axes[path].texts))
        return f"{', '.join(first)} or {last}"

    def clause(self, template: str, path: str) -> str:
        """Return a template with the value of a setting, or "" if it has none."""
        text = self.value(path)
        return "" if text is None else template.format(text)

    def everywhere(self, test: Callable[[int], Any]) -> bool:
        """Tell whether a test holds for all sweep points, given by index."""
        return all(test(p) for p in range(len(self.study.outcomes)))

    def has(self, path: str) -> bool:
        """Tell whether a setting is neither empty nor zero in all sweep points."""
        return self.everywhere(lambda p: self.study.value(p, path))


def _in_words(text: str) -> str:
    return "infinity" if text == "inf" else spaced(text)


def _is_drawn(words: _Words) -> bool:
    """Tell whether each client draws its own synthetic samples, instead of a share of a data set."""
    return words.everywhere(lambda p: words.study.value(p, "data.dimension") is not None)


def _who(words: _Words) -> str:
    """Return the clause about the clients, and what they learn with which algorithm."""
    clients = words.value("network.num_clients")
    who = f"{clients} clients" if clients else "The clients"
    if not words.has("network.graph") and not words.has("server.pattern"):
        mobile = words.value("network.num_mobile")
        if mobile not in (None, "0") and not _by_list(words):
            who += f", {'all' if mobile == clients else mobile} of them mobile,"
    drawn = _is_drawn(words)
    task = "" if drawn else words.clause(" train {}", "model.name")
    task += words.clause(" learn {}" if drawn or not task else " on {}", "data.name")
    return who + task + words.clause(" with {}", "algorithm.name")


def _split(words: _Words) -> str:
    """Return the clause about the clients' data."""
    if _is_drawn(words):
        found = words.clause("Each draws {} samples", "data.samples_per_client")
        return found + words.clause(" of {} features", "data.dimension")
    found = words.clause("The data are split by {}", "data.partition").replace(" by by ", " by ")
    return found + words.clause(" (alpha {})", "data.alpha")


def _by_list(words: _Words) -> bool:
    """Tell whether a contact list gives the links; then there are neither places nor radii."""
    return words.everywhere(lambda p: place_of(words.study, p) == "contacts")


def _meeting(words: _Words) -> str:
    """Return the clauses about who can exchange messages with whom."""
    study, file = words.study, PurePath(str(words.study.value(0, "trace.file") or "")).name
    if words.everywhere(lambda p: met_by_pattern(study, p)):
        place = words.clause("Clients meet a server by the pattern {}", "server.pattern")
        return place + words.clause(", and each other in random pairs, {} of the clients a slot", "server.pairs")
    if words.has("network.graph"):
        place = words.clause("The clients are tied by a graph: {}", "network.graph")
    elif _by_list(words):
        words.used.add("network.mobility")
        place = f"The contacts are those of the list {file}"
    else:
        place = _movement(words, file)
    if words.has("server.pattern"):
        return place + words.clause(". Clients meet a server at road-side units of range {} m", "server.unit_range")
    if not words.everywhere(lambda p: study.value(p, "algorithm.aggregation") in (None, "", "mean")):
        return place + words.clause(". Clients combine the models that they hear by {}", "algorithm.aggregation")
    return place + words.clause(". Models are mixed by {}", "network.mixing")


def _attack(words: _Words) -> str:
    """Return the clause about who attacks, and how; "" if nobody does."""
    study = words.study
    if not is_attacked(study.outcomes, study.config):
        return ""
    is_share = any(study.value(p, "attack.share") for p in range(len(study.points)))
    many = words.clause("A share of {} of the clients", "attack.share") if is_share else ""
    many = many or words.clause("{} of the clients", "attack.number")
    by = " attack by {}" if words.has("attack.name") else " attack or not ({})"
    who = words.clause(" ({})", "attack.who") + words.clause(by, "attack.name")
    since = words.clause(" from round {} on", "attack.from_round") if words.has("attack.from_round") else ""
    return f"{many}{who}{since}; accuracies and losses are those of the honest clients"


def _movement(words: _Words, file: str) -> str:
    """Return the clause about movement, the world and the contact radius."""
    kinds = {world.kind for world in worlds_of(words.study).values()}
    place = words.clause("Mobility is {}", "network.mobility")
    words.used.add("network.world")
    if not words.everywhere(lambda p: words.study.value(p, "motion.knowledge") in (None, "oracle")):
        place += words.clause(" (clients know: {})", "motion.knowledge")
    if kinds == {GRID} and not file:
        place += words.clause(" on a grid of {0} x {0}", "network.grid_size")
    elif kinds == {PLANE} and not file:
        sides = [words.value(f"motion.{side}") for side in ("width", "height")]
        place += f" in a plane of {sides[0]} m x {sides[1]} m" if all(sides) else " in the plane"
    metres = " m" if kinds == {PLANE} else ""  # the unit of the plane; a grid has steps
    if words.value("network.radius") == "infinity":
        place += ", with all clients in contact"
    else:
        place += words.clause(f", with a contact radius of {{}}{metres}", "network.radius")
    if kinds == {GRID} and not file:
        place += words.clause(" and steps of at most {} a round", "network.max_step")
    return place + (f"; the trace is {file}" if file else "")


def _length(words: _Words) -> str:
    """Return the clause about rounds, evaluations and seeds."""
    seeds = len(words.study.manifest["seeds"])
    length = words.clause("A run lasts {} rounds", "rounds") + words.clause(", with a test every {}", "eval_every")
    of = [words.clause(f"{{}} {what}", field) for field, what in SAMPLED.items() if words.has(field)]
    length += f" (of a sample of {' and '.join(of)}; of all at the first and the last)" if of else ""
    if seeds > 1:
        return f"{length}; {seeds} seeds" if length else f"{seeds} seeds"
    return f"{length}; one seed" if length else ""


def _varied(words: _Words) -> str:
    """Return the clause with the varying settings that no other clause has used."""
    others = [
        f"{spaced(axis.name)}: {words.value(path)}" for path, axis in words.axes.items() if path not in words.used
    ]
    return f"The sweep varies {'; '.join(others)}" if others else ""


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
    seconds = [f"{number(made.get(f'{part}_seconds'))} s to {part}" for part in ("compile", "run")]
    versions = ", ".join(f"{name} {version}" for name, version in (made.get("versions") or {}).items())
    files = "summary.json, metrics.jsonl, history.npz, tables/*.md, *.tex and *.csv, figures/*.pdf and *.csv"
    return [
        Entry("Command", made.get("command"), is_code=True, is_copied=True),
        Entry("Commit", made.get("commit"), is_code=True, is_copied=True),
        Entry("Versions", versions),
        Entry("Devices", ", ".join(devices)),
        Entry("Time", ", ".join(seconds)),
        Entry("Seeds", _ranges(made["seeds"])),
        Entry("Status", made.get("status")),
        Entry("What to cite", _cited(made.get("cite") or {})),
        Entry("Files beside this page", files, is_code=True),
    ]


def _cited(citations: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the papers that the members of a study cite, with what each is cited for; "" for none."""
    listed = [f"{Paper(key, of['entry']).short} ({'; '.join(of['for'])})" for key, of in citations.items()]
    return ". ".join([*listed, "mdfl cite FOLDER prints the BibTeX entries"]) if listed else ""


def _ranges(seeds: Sequence[Any]) -> str:
    """Return numbers with runs of consecutive ones shortened.

    >>> _ranges([0, 1, 2, 5, 7, 8])
    '0 to 2, 5, 7, 8'
    """
    runs: list[list[Any]] = []
    for seed in seeds:
        if runs and isinstance(seed, int) and runs[-1][-1] == seed - 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _config(study: Results) -> str:
    return json.dumps({"config": study.config, "points": study.manifest.get("points")}, indent=2)


def _kinds(devices: list[Any]) -> list[tuple[str, int]]:
    """Return the kinds of devices with the number of each kind, so that eight cores need only one line."""
    return list(Counter(str(device).rstrip("0123456789").rstrip("_:") or str(device) for device in devices).items())
