"""A study in words: its experiment, from the configuration and the recorded positions, and how it was made."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from mdfl_jax.report import tables
from mdfl_jax.report.read import ReportData
from mdfl_jax.report.settings import show, spaced
from mdfl_jax.report.world import GRID, PLANE, met_by_pattern, place_of, worlds_of

MANY = 9  # of more numbers, only the first and the last are named
SAMPLED = {"eval_clients": "clients", "eval_samples": "test samples"}


def describe_setting(study: ReportData) -> str:
    """Describe the experiment in sentences. A setting that varies is given with all its values."""
    words = _Words(study)
    sentences = (_who(words), _split(words), _meeting(words), _length(words), _varied(words))
    return " ".join(f"{text.strip()}." for text in sentences if text)


class _Words:
    """The settings of a study as texts; it remembers which of them a clause has used."""

    def __init__(self, study: ReportData) -> None:
        self.study = study
        self.axes = {axis.path: axis for axis in study.axes}
        self.used: set[str] = set()

    def value(self, path: str) -> str | None:
        """Return the value of a setting, or all its values if it varies; None if it has none."""
        self.used.add(path)
        if path not in self.axes:
            plain = self.study.value(0, path)
            return None if plain is None or plain == "" else _in_words(show(plain))
        if len(ordered := list(self.axes[path].numbers)) > MANY:
            return f"{len(ordered)} values from {_in_words(ordered[0])} to {_in_words(ordered[-1])}"
        *first, last = map(_in_words, dict.fromkeys(self.axes[path].texts))
        return f"{', '.join(first)} or {last}"

    def clause(self, template: str, path: str) -> str:
        """Return a template with the value of a setting, or "" if it has none."""
        text = self.value(path)
        return "" if text is None else template.format(text)

    def everywhere(self, test: Callable[[int], Any]) -> bool:
        """Tell whether a test holds for all sweep points, given by index."""
        return all(test(p) for p in range(len(self.study.points)))

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
    return place + words.clause(". Models are mixed by {}", "network.mixing")


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
    return f"Varied are {'; '.join(others)}" if others else ""


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


def describe_making(study: ReportData) -> list[Making]:
    """Return how a study was made, or each of the studies that are compared."""
    studies = {str(one.workdir): one for one in study.studies} or {"": study}
    return [Making(name, _entries(one), _config(one)) for name, one in studies.items()]


def _entries(study: ReportData) -> list[Entry]:
    made = study.manifest
    devices = [f"{count} x {name}" if count > 1 else name for name, count in _kinds(made.get("devices") or [])]
    seconds = [f"{tables.number(made.get(f'{part}_seconds'))} s to {part}" for part in ("compile", "run")]
    versions = ", ".join(f"{name} {version}" for name, version in (made.get("versions") or {}).items())
    files = "summary.json, metrics.jsonl, history.npz, tables/summary.csv, tables/summary.md, figures/*.pdf"
    return [
        Entry("Command", made.get("command"), is_code=True, is_copied=True),
        Entry("Commit", made.get("commit"), is_code=True, is_copied=True),
        Entry("Versions", versions),
        Entry("Devices", ", ".join(devices)),
        Entry("Time", ", ".join(seconds)),
        Entry("Seeds", _ranges(made["seeds"])),
        Entry("Status", made.get("status")),
        Entry("Files beside this page", files, is_code=True),
    ]


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


def _config(study: ReportData) -> str:
    return json.dumps({"config": study.config, "points": study.manifest.get("points")}, indent=2)


def _kinds(devices: list[Any]) -> list[tuple[str, int]]:
    """Return the kinds of devices with the number of each kind, so that eight cores need only one line."""
    return list(Counter(str(device).rstrip("0123456789").rstrip("_:") or str(device) for device in devices).items())
